package main

import (
	"strings"
	"testing"
	"time"
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

func TestReportTellsHowManyTimesLess(t *testing.T) {
	r := newReport("machine", "setup", []time.Duration{time.Second}, []time.Duration{25 * time.Millisecond})
	if r.Ratios.P50 != 40 {
		t.Errorf("ratio = %v, want 40", r.Ratios.P50)
	}
	r.Stages = medianStages([]map[string]any{
		{"msg": "serving"}, {"msg": "bind", "stagesMs": map[string]any{"bind": 4.25, "permit": 0.0}},
	})
	var out strings.Builder
	r.writeText(&out)
	for _, want := range []string{"1000.0 ms", "25.0 ms", "40.0 x", "prebind:  bind 4.3 ms\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, out.String())
		}
	}
}
