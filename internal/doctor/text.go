package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Marks and colours of each status.
type look struct{ mark, colour string }

func (s Status) look() look {
	switch s {
	case Fault:
		return look{"✗", "31"}
	case Advice:
		return look{"!", "33"}
	case Skipped:
		return look{"-", "2"}
	case OK:
	}
	return look{"✓", "32"}
}

// columns is how wide the text is; only long words and commands go beyond.
const columns = 110

// WriteText writes the report for people: a line for each check, its findings
// below it, and a summary at the end.
func (r *Report) WriteText(w io.Writer, colour bool) error {
	var out bytes.Buffer
	width := 0
	for _, check := range r.Checks {
		width = max(width, len(check.Name))
	}
	for _, check := range r.Checks {
		mark := check.Status.look().paint(check.Status.look().mark, colour)
		summary := check.Summary
		if check.Status == Skipped {
			summary = "skipped: " + summary
		}
		fmt.Fprintf(&out, "%s %-*s  %s\n", mark, width, check.Name, wrap(summary, width+4))
		for _, finding := range check.Findings {
			finding.writeText(&out, colour)
		}
	}
	fmt.Fprintf(&out, "\n%s\n", r.verdict())
	_, err := w.Write(out.Bytes())
	return err
}

func (f Finding) writeText(out *bytes.Buffer, colour bool) {
	severity := f.Severity.look().paint(string(f.Severity), colour)
	object := ""
	if f.Object != "" {
		object = f.Object + ": "
	}
	const indent = 4
	fmt.Fprintf(out, "%*s%s: %s\n", indent, "", severity, wrap(object+f.What, indent+len(f.Severity)+2))
	fmt.Fprintf(out, "%*swhy:  %s\n", indent+2, "", wrap(f.Why, indent+8))
	fmt.Fprintf(out, "%*smend: %s\n", indent+2, "", wrap(f.Mend, indent+8))
}

func (l look) paint(text string, colour bool) string {
	if !colour {
		return text
	}
	return "\x1b[" + l.colour + "m" + text + "\x1b[0m"
}

// verdict is the last line.
func (r *Report) verdict() string {
	count := map[Status]int{}
	for _, check := range r.Checks {
		count[check.Status]++
	}
	text := "Nothing found"
	if r.Faults+r.Advice > 0 {
		text = plural(r.Faults, "fault") + ", " + fmt.Sprintf("%d advice", r.Advice)
	}
	return fmt.Sprintf("%s: %s, %d ok, %d skipped.", text, plural(len(r.Checks), "check"), count[OK], count[Skipped])
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// wrap breaks text between words so that each line, set behind indent columns,
// ends before the right edge. Lines of the text stay lines.
func wrap(text string, indent int) string {
	var out strings.Builder
	margin := "\n" + strings.Repeat(" ", indent)
	for number, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if number > 0 {
			out.WriteString(margin)
		}
		if strings.HasPrefix(line, "kubectl ") { // to be copied
			out.WriteString(line)
			continue
		}
		indent, margin := indent, margin
		if len(line) > 3 && line[1:3] == ". " && line[0] >= '1' && line[0] <= '9' { // a step of a list
			indent, margin = indent+3, margin+"   "
		}
		at := indent
		for position, word := range strings.Split(line, " ") {
			length := len([]rune(word))
			switch {
			case position == 0:
			case at+1+length > columns:
				out.WriteString(margin)
				at = indent
			default:
				out.WriteString(" ")
				at++
			}
			out.WriteString(word)
			at += length
		}
	}
	return out.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
