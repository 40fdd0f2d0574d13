package main

import "strings"

// indent sets text off from the help around it.
func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  " + line)
	}
	return out.String()
}
