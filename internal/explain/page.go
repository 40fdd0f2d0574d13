package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	// columns is how wide the text is; only tables, long words and commands go beyond.
	columns = 110
	// indent is where the text of an item begins.
	indent = 13
)

// text is what is written, and when.
type text struct {
	buffer bytes.Buffer
	now    time.Time
}

// writeTo writes what was printed. Events and annotations are anybody's words: none of
// them may send commands to a terminal.
func (t *text) writeTo(w io.Writer) error {
	_, err := w.Write(bytes.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, t.buffer.Bytes()))
	return err
}

func (t *text) printf(format string, args ...any) { fmt.Fprintf(&t.buffer, format, args...) }

// table sets lines in columns, each behind a margin.
func (t *text) table(margin string, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, line := range lines {
		var row strings.Builder
		for i, cell := range line {
			fmt.Fprintf(&row, "%-*s", widths[i]+2, cell)
		}
		t.printf("%s%s\n", margin, strings.TrimRight(row.String(), " "))
	}
}

func (t *text) section(head string) { t.printf("\n%s\n", head) }

// line stands alone.
func (t *text) line(what string) { t.printf("  %s\n", wrap(what, 4)) }

// item is a line with a label, which may be empty, in front.
func (t *text) item(label, what string) {
	t.printf("  %-*s%s\n", indent-2, label, wrap(what, indent))
}

// items have the label in front of the first.
func (t *text) items(label string, what []string) {
	for _, line := range what {
		t.item(label, line)
		label = ""
	}
}

// events are the last ones of an object, the newest first, as in kubectl describe.
func (t *text) events(events []Event) []string {
	texts := make([]string, 0, len(events))
	for _, e := range events {
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" (x%d over %s)", e.Count, duration.HumanDuration(t.now.Sub(e.First)))
		}
		texts = append(texts, fmt.Sprintf("%s%s  %s  %s: %s", ago(t.now, e.Last), times, e.Type, e.Reason, oneLine(e.Message)))
	}
	return texts
}

// ago is how long ago that was.
func ago(now, then time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(then))) + " ago"
}

// wrap breaks text between words so that each line, set behind indent columns, ends
// before the right edge. What is between backquotes is to be copied, and one word.
func wrap(text string, indent int) string {
	var out strings.Builder
	at := indent
	for i, word := range words(text) {
		length := len([]rune(word))
		switch {
		case i == 0:
		case at+1+length > columns:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += length
	}
	return out.String()
}

func words(text string) []string {
	var found []string
	command := false
	for word := range strings.SplitSeq(text, " ") {
		if command {
			found[len(found)-1] += " " + word
		} else {
			found = append(found, word)
		}
		if strings.Count(word, "`")%2 == 1 {
			command = !command
		}
	}
	return found
}
