package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metric is a row of the table in docs/metrics.md.
type metric struct {
	kind   string
	labels map[string][]string // the values that it may have; nil: any
	query  string
}

// targetLabels are those that a scrape adds, here those of the Prometheus operator.
var targetLabels = []string{"namespace", "pod", "job", "instance"}

// others are metrics of client_golang and of Prometheus itself that queries may use.
var others = []string{"process_resident_memory_bytes", "process_cpu_seconds_total", "go_gc_heap_live_bytes"}

// readMetrics returns the table of docs/metrics.md by the names of the metrics.
func readMetrics(t *testing.T) map[string]metric {
	t.Helper()
	text := read(t, "docs", "metrics.md")
	_, table, found := strings.Cut(text, "<!-- metrics -->\n")
	table, _, _ = strings.Cut(table, "\n\n")
	metrics := map[string]metric{}
	var codes []string
	_, reasons, _ := strings.Cut(text, "<!-- reasons -->\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(reasons, -1) {
		codes = append(codes, row[1])
	}
	plain := regexp.MustCompile(`^[A-Za-z0-9_/.-]+$`)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 6 {
			continue
		}
		row := metric{kind: cells[1], labels: map[string][]string{}}
		for label := range strings.SplitSeq(cells[2], "; ") {
			name, list, ok := strings.Cut(label, ": ")
			if !ok {
				continue
			}
			values := strings.Split(list, ", ")
			if slices.ContainsFunc(values, func(value string) bool { return !plain.MatchString(value) }) {
				values = nil
			}
			if list == "[codes](#reasons)" {
				values = codes
			}
			row.labels[unquoted(name)] = values
		}
		_, query, _ := strings.Cut(cells[5], "`")
		row.query = strings.TrimRight(query, "` ")
		metrics[unquoted(cells[0])] = row
	}
	if !found || len(metrics) == 0 || len(codes) == 0 {
		t.Fatal("docs/metrics.md has no tables")
	}
	return metrics
}

func unquoted(cell string) string { return strings.Trim(cell, "` ") }

// read returns a file of the repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
