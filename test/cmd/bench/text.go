package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prebind/prebind/test/internal/console"
)

// table is a table for the terminal and for Markdown.
type table struct {
	title  string
	header []string
	rows   [][]string
}

// tables are all that there is to tell: the goals, then each scenario.
func (r *report) tables() []table {
	var list []table
	if rows := r.goalRows(); len(rows) > 0 {
		list = append(list, table{"Measured and asked", goalHeader(), rows})
	}
	for i := range r.Scenarios {
		list = append(list, r.Scenarios[i].table())
		if s := &r.Scenarios[i]; s.ProbeFilter {
			list = append(list, s.filterTable())
		}
	}
	for _, make := range []func() (table, bool){r.callTable, r.cpuTable} {
		if t, ok := make(); ok {
			list = append(list, t)
		}
	}
	if r.Scale != nil {
		list = append(list, r.Scale.table())
	}
	return list
}

// table is one scenario.
func (s *result) table() table {
	t := table{title: fmt.Sprintf("%s: %s", s.Name, s.title())}
	t.header = []string{
		"variant", "pods", "pods/s", "x stock", "p50 ms", "p90 ms", "p99 ms", "Filter ms/pod", "scheduling ms/pod",
		"failed attempts/pod", "writes/pod", "events/pod", "settled s", "prebind CPU s", "peak MiB",
	}
	var base *measurement
	for i := range s.Series {
		m := &s.Series[i]
		if m.Variant == stock() && m.Error == "" {
			base = m
		}
		t.rows = append(t.rows, m.row(base))
	}
	return t
}

// filterTable are a scenario's own filter calls.
func (s *result) filterTable() table {
	t := table{
		title:  fmt.Sprintf("%s: one call of /v1/filter for the names of %s nodes before the burst, JSON and HTTP on both sides included", s.Name, thousands(s.World.Nodes)),
		header: []string{"variant", "calls", "p50 ms", "p90 ms", "p99 ms", "max ms"},
	}
	for _, m := range s.Series {
		if m.FilterCalls == nil {
			continue
		}
		idle := m.FilterCalls.Idle
		t.rows = append(t.rows, []string{
			m.Variant.String(), fmt.Sprint(len(idle.Samples)), fmt.Sprintf("%.1f", idle.P50),
			fmt.Sprintf("%.1f", idle.P90), fmt.Sprintf("%.1f", idle.P99), fmt.Sprintf("%.1f", idle.Max),
		})
	}
	return t
}

// callTable are the scheduler's calls while bursts were running.
func (r *report) callTable() (table, bool) {
	t := table{
		title:  "The scheduler's calls of /v1/filter and /v1/prioritize while bursts were running, as prebind served them (upper bounds: its histogram's buckets)",
		header: []string{"scenario", "variant", "path", "nodes", "calls", "p50 ms", "p90 ms", "p99 ms"},
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, m := range s.Series {
			if m.PodsPerSecond == 0 {
				continue
			}
			for _, path := range slices.Sorted(maps.Keys(m.Calls)) {
				q := m.Calls[path]
				t.rows = append(t.rows, []string{
					s.Name, m.Variant.String(), path, thousands(s.World.Nodes), fmt.Sprint(q.Calls),
					fmt.Sprintf("%.1f", q.P50), fmt.Sprintf("%.1f", q.P90), fmt.Sprintf("%.1f", q.P99),
				})
			}
		}
	}
	return t, len(t.rows) > 0
}

// row is one variant beside stock, which may be nil.
func (m *measurement) row(base *measurement) []string {
	if m.Error != "" {
		first, _, _ := strings.Cut(m.Error, "\n")
		return []string{m.Variant.String(), fmt.Sprintf("failed: %.100s", first)}
	}
	optional := func(format string, x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf(format, x)
	}
	times := ""
	switch {
	case base == nil:
	case m.PodsPerSecond > 0:
		times = fmt.Sprintf("%.2f", m.PodsPerSecond/base.PodsPerSecond)
	default:
		times = fmt.Sprintf("%.2f", float64(base.Latency.P50/m.Latency.P50))
	}
	return []string{
		m.Variant.String(), thousands(m.Pods), optional("%.1f", m.PodsPerSecond), times,
		fmt.Sprintf("%.1f", m.Latency.P50), fmt.Sprintf("%.1f", m.Latency.P90), fmt.Sprintf("%.1f", m.Latency.P99),
		fmt.Sprintf("%.2f", m.FilterMilliseconds), fmt.Sprintf("%.2f", m.SchedulingMilliseconds), fmt.Sprintf("%.2f", m.FailedAttempts),
		fmt.Sprintf("%.1f", m.Writes), fmt.Sprintf("%.1f", m.Events), optional("%.1f", m.SettledSeconds),
		optional("%.2f", m.CPUSeconds), optional("%.0f", m.PeakMiB),
	}
}

func (r *report) writeText(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n%s\nseed %d, %.0f minutes\n", r.Machine, r.Seed, r.Minutes)
	for _, t := range r.tables() {
		_, _ = fmt.Fprintf(w, "\n%s\n", t.title)
		for _, line := range console.Table(t.header, t.rows) {
			_, _ = fmt.Fprintln(w, "  "+line)
		}
	}
}

// markdown is the report as a section of a page, whose plots are in a folder
// named relative to the page.
func (r *report) markdown(plots []plotFile, folder string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n`%s`", r.Machine, r.Command)
	if r.Commit != "" {
		fmt.Fprintf(&b, " at %s", r.Commit)
	}
	fmt.Fprintf(&b, ", seed %d, %s, %.0f minutes.\n", r.Seed, day(r.Started), r.Minutes)
	for _, again := range r.Again {
		fmt.Fprintf(&b, "%s: again on %s", again.What, day(again.Started))
		if again.Commit != "" {
			fmt.Fprintf(&b, " at %s", again.Commit)
		}
		b.WriteString(".\n")
	}
	for i, t := range r.tables() {
		fmt.Fprintf(&b, "\n### %s\n\n", t.title)
		writeRow(&b, t.header)
		b.WriteString(strings.Repeat("|---", len(t.header)) + "|\n")
		for _, row := range t.rows {
			writeRow(&b, row)
		}
		if i > 0 {
			continue
		}
		for _, p := range plots { // behind the goals
			fmt.Fprintf(&b, "\n![%s](%s/%s)\n", p.title, folder, p.name)
		}
	}
	return b.String()
}

func day(t time.Time) string { return t.UTC().Format("2 January 2006") }

func writeRow(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
