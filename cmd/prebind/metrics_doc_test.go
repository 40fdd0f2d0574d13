package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

// documented is a row of the table in docs/metrics.md.
type documented struct {
	kind   string
	labels map[string]values
}

// values are those that a label may have.
type values struct {
	codes  bool     // of package fault, or none
	closed []string // these alone, if not nil
}

func (v values) allow(value string, codes []string) bool {
	switch {
	case v.codes:
		return value == "" || slices.Contains(codes, value)
	case v.closed != nil:
		return slices.Contains(v.closed, value)
	default:
		return value != ""
	}
}

// rows returns the cells of the table after the mark.
func rows(t *testing.T, text, mark string) [][]string {
	t.Helper()
	_, table, found := strings.Cut(text, "<!-- "+mark+" -->\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var all [][]string
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "); strings.HasPrefix(line, "| `") {
			all = append(all, cells)
		}
	}
	if !found || len(all) == 0 {
		t.Fatalf("docs/metrics.md has no table %s", mark)
	}
	return all
}

func unquoted(cell string) string { return strings.Trim(cell, "` ") }

// readDocs returns what docs/metrics.md has of metrics and of reasons.
func readDocs(t *testing.T) (metrics map[string]documented, codes []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics = map[string]documented{}
	plain := regexp.MustCompile(`^[A-Za-z0-9_/.-]+$`)
	for _, cells := range rows(t, string(text), "metrics") {
		if len(cells) != 6 {
			t.Fatalf("%d cells, want 6: %q", len(cells), cells)
		}
		row := documented{kind: cells[1], labels: map[string]values{}}
		for label := range strings.SplitSeq(cells[2], "; ") {
			key, list, ok := strings.Cut(label, ": ")
			if !ok {
				continue // "-"
			}
			v := values{codes: list == "[codes](#reasons)"}
			if all := strings.Split(list, ", "); !slices.ContainsFunc(all, func(one string) bool { return !plain.MatchString(one) }) {
				v.closed = all
			}
			row.labels[unquoted(key)] = v
		}
		metrics[unquoted(cells[0])] = row
	}
	for _, cells := range rows(t, string(text), "reasons") {
		codes = append(codes, unquoted(cells[0]))
	}
	return metrics, codes
}

// compare tells in what the metrics and their table differ.
func compare(t *testing.T, families []*dto.MetricFamily) []string {
	t.Helper()
	docs, codes := readDocs(t)
	var differences []string
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	exported := map[string]bool{}
	for _, family := range ours(families) {
		name := family.GetName()
		exported[name] = true
		row, ok := docs[name]
		if !ok {
			differ("%s is not documented", name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != row.kind {
			differ("%s is a %s, and documented as a %s", name, kind, row.kind)
		}
		for _, metric := range family.GetMetric() {
			seen := map[string]bool{}
			for _, label := range metric.GetLabel() {
				seen[label.GetName()] = true
				if allowed, ok := row.labels[label.GetName()]; !ok || !allowed.allow(label.GetValue(), codes) {
					differ("%s: %s=%q is not documented", name, label.GetName(), label.GetValue())
				}
			}
			for label := range row.labels {
				if !seen[label] {
					differ("%s has no label %s", name, label)
				}
			}
		}
	}
	for name := range docs {
		if !exported[name] {
			differ("%s is documented, and not exported", name)
		}
	}
	slices.Sort(differences)
	return slices.Compact(differences)
}

// ours leaves out what comes from client_golang.
func ours(families []*dto.MetricFamily) []*dto.MetricFamily {
	return slices.DeleteFunc(slices.Clone(families), func(family *dto.MetricFamily) bool {
		return !strings.HasPrefix(family.GetName(), "prebind_") && !strings.HasPrefix(family.GetName(), "rest_client_")
	})
}

// The table of reasons has all codes of package fault, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "fault", "codes.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			want[code] = true
		}
		return true
	})
	_, codes := readDocs(t)
	slices.Sort(codes)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), codes); diff != "" {
		t.Errorf("docs/metrics.md, reasons (-codes +docs):\n%s", diff)
	}
}
