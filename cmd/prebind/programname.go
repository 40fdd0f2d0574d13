package main

import (
	"path/filepath"
	"strings"
)

const (
	ownName    = "prebind"
	pluginFile = "kubectl-prebind"
	pluginName = "kubectl prebind"
)

// programName is what people type to run the program: kubectl runs a file called
// kubectl-prebind as `kubectl prebind`.
func programName(file string) string {
	if strings.TrimSuffix(filepath.Base(file), ".exe") == pluginFile {
		return pluginName
	}
	return ownName
}
