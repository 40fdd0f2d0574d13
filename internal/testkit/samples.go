package testkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Samples lists counters and gauges with their values, and histograms with their
// counts, sorted: "prebind_bind_calls_total{outcome=bound reason=} 1". With names
// only those metrics are listed.
func Samples(t testing.TB, gatherer prometheus.Gatherer, names ...string) []string {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		if len(names) > 0 && !slices.Contains(names, family.GetName()) {
			continue
		}
		for _, metric := range family.GetMetric() {
			lines = append(lines, fmt.Sprintf("%s{%s} %v", family.GetName(), labelsOf(metric), valueOf(metric)))
		}
	}
	slices.Sort(lines)
	return lines
}

func labelsOf(metric *dto.Metric) string {
	pairs := make([]string, 0, len(metric.GetLabel()))
	for _, label := range metric.GetLabel() {
		pairs = append(pairs, label.GetName()+"="+label.GetValue())
	}
	return strings.Join(pairs, " ")
}

func valueOf(metric *dto.Metric) any {
	switch {
	case metric.GetHistogram() != nil:
		return metric.GetHistogram().GetSampleCount()
	case metric.GetGauge() != nil:
		return metric.GetGauge().GetValue()
	}
	return metric.GetCounter().GetValue()
}
