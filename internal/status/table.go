package status

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table is aligned text; texts too long for a column go below their row.
type table struct {
	rows  [][]string // the first one has the names of the columns
	texts map[int]string
}

func newTable(columns ...string) *table {
	return &table{rows: [][]string{columns}, texts: map[int]string{}}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// below puts a text under the last row.
func (t *table) below(text string) { t.texts[len(t.rows)-1] = text }

// write prints the table, unless it is empty, under its title.
func (t *table) write(out *strings.Builder, title string, total int) {
	fmt.Fprintf(out, "\n%s: %d\n", title, total)
	if len(t.rows) == 1 {
		return
	}
	var aligned strings.Builder
	writer := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		cells := make([]string, len(t.rows[0]))
		for i, cell := range row {
			cells[i] = clean(cell)
		}
		_, _ = fmt.Fprintln(writer, strings.Join(cells, "\t"))
	}
	_ = writer.Flush() // a Builder takes everything
	n := 0
	for line := range strings.Lines(aligned.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
		if text := t.texts[n]; text != "" {
			out.WriteString("  " + clean(text) + "\n")
		}
		n++
	}
}

// andMore tells how many were left out, if any.
func andMore(out *strings.Builder, n int) {
	if n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
}
