package monitoring_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// allQueries returns every query there is, by where it stands.
func allQueries(t *testing.T) map[string]string {
	t.Helper()
	all := panelQueries(t)
	for _, variable := range readDashboard(t).Templating.List {
		if variable.Definition == "" {
			continue
		}
		values := regexp.MustCompile(`^label_values\((.+), \w+\)$`).FindStringSubmatch(variable.Definition)
		if values == nil {
			t.Errorf("variable %s: %s", variable.Name, variable.Definition)
			continue
		}
		all["variable "+variable.Name] = strings.ReplaceAll(values[1], "$namespace", ".*")
	}
	for _, r := range readRules(t) {
		all["alert "+r.Alert] = r.Expr
	}
	for name, m := range readMetrics(t) {
		all["docs/metrics.md, "+name] = m.query
	}
	for i, query := range inline(t) {
		all[fmt.Sprintf("docs/operations.md, query %d", i)] = query
	}
	return all
}

// inline returns the queries in the text of docs/operations.md. A name of a metric alone
// is a word, and has to be one of the metrics.
func inline(t *testing.T) []string {
	t.Helper()
	metrics := readMetrics(t)
	var queries []string
	for _, code := range regexp.MustCompile("`([^`\n]*(?:prebind|rest_client)_[a-z_]+[^`\n]*)`").FindAllStringSubmatch(read(t, "docs", "operations.md"), -1) {
		if name := code[1]; regexp.MustCompile(`^\w+$`).MatchString(name) {
			if _, ok := metrics[name]; !ok {
				t.Errorf("docs/operations.md: there is no metric %s", name)
			}
			continue
		}
		queries = append(queries, code[1])
	}
	return queries
}

// Each query is one, asks for metrics and labels that there are, and uses them as
// their type allows.
func TestQueriesFitTheMetrics(t *testing.T) {
	metrics := readMetrics(t)
	for where, query := range allQueries(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %s: %v", where, query, err)
			continue
		}
		known := map[string]bool{}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				for _, problem := range checkSelector(metrics, selector, path) {
					t.Errorf("%s: %s: %s", where, query, problem)
				}
				for _, label := range labelsOf(metrics, selector.Name) {
					known[label] = true
				}
			}
			return nil
		})
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			for _, label := range grouped(node) {
				if !known[label] {
					t.Errorf("%s: %s: no metric in it has the label %s", where, query, label)
				}
			}
			return nil
		})
	}
}

// series takes the name of a series of a histogram apart.
func series(name string) (metric, part string) {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if metric, ok := strings.CutSuffix(name, part); ok {
			return metric, part
		}
	}
	return name, ""
}

func labelsOf(metrics map[string]metric, name string) []string {
	base, part := series(name)
	all := slices.Collect(maps.Keys(metrics[base].labels))
	if part == "_bucket" {
		all = append(all, "le")
	}
	return append(all, targetLabels...)
}

// checkSelector tells what is wrong with a selector, which path leads to.
func checkSelector(metrics map[string]metric, selector *parser.VectorSelector, path []parser.Node) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if slices.Contains(others, selector.Name) {
		return nil
	}
	base, part := series(selector.Name)
	m, ok := metrics[base]
	if !ok || (m.kind == "histogram") != (part != "") {
		problem("there is no series %s", selector.Name)
		return problems
	}
	cumulative := m.kind == "counter" || part != ""
	if over := function(path); cumulative != slices.Contains([]string{"rate", "increase"}, over) {
		problem("%s is a %s, and in function %q", selector.Name, m.kind, over)
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		if !slices.Contains(labelsOf(metrics, selector.Name), matcher.Name) {
			problem("%s has no label %s", base, matcher.Name)
		}
		values := m.labels[matcher.Name]
		if len(values) > 0 && !slices.ContainsFunc(values, matcher.Matches) {
			problem("no value of %s matches %s", matcher.Name, matcher)
		}
		for value := range strings.SplitSeq(matcher.Value, "|") { // each alternative is one
			if len(values) > 0 && matcher.Type != labels.MatchNotEqual && matcher.Value != ".*" && !slices.Contains(values, value) {
				problem("%s is never %q", matcher.Name, value)
			}
		}
	}
	return problems
}

// function returns the name of the function that a selector's range is for.
func function(path []parser.Node) string {
	for _, node := range slices.Backward(path) {
		switch node := node.(type) {
		case *parser.MatrixSelector, parser.Expressions:
		case *parser.Call:
			return node.Func.Name
		default:
			return ""
		}
	}
	return ""
}

// grouped returns the labels by which a node groups or joins.
func grouped(node parser.Node) []string {
	switch node := node.(type) {
	case *parser.AggregateExpr:
		return node.Grouping
	case *parser.BinaryExpr:
		if node.VectorMatching != nil {
			return node.VectorMatching.MatchingLabels
		}
	}
	return nil
}
