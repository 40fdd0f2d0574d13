package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	tests := map[string]struct {
		samples []time.Duration
		p       int
		want    milliseconds
	}{
		"no sample":          {nil, 50, 0},
		"one sample":         {hundred[:1], 99, 100},
		"median of hundred":  {hundred, 50, 50},
		"p99 of hundred":     {hundred, 99, 99},
		"maximum of hundred": {hundred, 100, 100},
		"median of two":      {hundred[:2], 50, 99},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percentile(test.samples, test.p); got != test.want {
				t.Errorf("percentile = %v, want %v", got, test.want)
			}
		})
	}
}

func TestMedianStagesReadsBindLines(t *testing.T) {
	got := medianStages([]map[string]any{
		{"msg": "serving"},
		{"msg": "bind", "stagesMs": map[string]any{"bind": 4.25, "permit": 0.0}},
		{"msg": "bind", "stagesMs": map[string]any{"bind": 9.0}},
	})
	want := map[string]milliseconds{"bind": 4.3, "permit": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("median stages (-want +got):\n%s", diff)
	}
}

func TestFailedBindsAreCountedByReason(t *testing.T) {
	got := failedBinds([]map[string]any{
		{"msg": "bind", "outcome": "bound"},
		{"msg": "bind", "reason": "NoVolume"},
		{"msg": "bind", "reason": "NoVolume"},
		{"msg": "other", "reason": "NoVolume"},
	})
	if diff := cmp.Diff(map[string]int{"NoVolume": 2}, got); diff != "" {
		t.Errorf("failed binds (-want +got):\n%s", diff)
	}
}

// Calls before the series do not count.
func TestNodesCallsAreThoseOfTheSeries(t *testing.T) {
	page := func(fast, slow int) families {
		f, err := parseMetrics(fmt.Appendf(nil, `# TYPE prebind_nodes_call_duration_seconds histogram
prebind_nodes_call_duration_seconds_bucket{path="/v1/filter",le="0.001"} %d
prebind_nodes_call_duration_seconds_bucket{path="/v1/filter",le="0.004"} %d
prebind_nodes_call_duration_seconds_bucket{path="/v1/filter",le="+Inf"} %d
prebind_nodes_call_duration_seconds_sum{path="/v1/filter"} 1
prebind_nodes_call_duration_seconds_count{path="/v1/filter"} %d
`, fast, fast+slow, fast+slow, fast+slow))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	got := page(160, 110).nodesCalls(page(100, 100))
	want := map[string]quantiles{"/v1/filter": {Calls: 70, P50: 1, P90: 4, P99: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := page(100, 100).nodesCalls(page(100, 100)); len(got) != 0 {
		t.Errorf("without calls: %v", got)
	}
}
