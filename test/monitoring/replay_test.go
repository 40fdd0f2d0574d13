package monitoring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/rules"

	"github.com/prebind/prebind/test/monitoring"
)

// A replay is to the rules what a Prometheus is that scrapes once a minute.
func TestReplay(t *testing.T) {
	var alerts []*rules.AlertingRule
	for _, rule := range []rulefmt.Rule{
		{Alert: "Gone", Expr: "absent(a)"},
		{Alert: "Down", Expr: "up == 0", For: model.Duration(time.Minute)},
		{Alert: "Many", Expr: "b > 2", Annotations: map[string]string{"summary": "{{ $value }} of {{ $labels.c }}"}},
		{Alert: "Rises", Expr: "rate(n_total[2m]) > 0.5", For: model.Duration(time.Minute)},
	} {
		alert, err := monitoring.NewAlert(rule)
		if err != nil {
			t.Fatal(err)
		}
		alerts = append(alerts, alert)
	}
	replay, err := monitoring.NewReplay(alerts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := replay.Close(); err != nil {
			t.Error(err)
		}
	}()
	start := time.Unix(1_800_000_000, 0)
	var got []string
	for minute, text := range []string{
		"a 1\nb{c=\"d\"} 1\nn_total 0\n",
		"a 1\nb{c=\"d\"} 3\nn_total 100\n", // many
		"a 1\nb{c=\"d\"} 4\nn_total 200\n", // still, and it has risen for a minute
		"",                                 // gone at once, down in a minute
		"",
		"a 1\nb{c=\"d\"} 3\nn_total 0\n", // many again
	} {
		at := start.Add(time.Duration(minute) * time.Minute)
		scrape := monitoring.Scrape{At: at, Target: map[string]string{"pod": "p"}, Text: text}
		if err := replay.Scrape(t.Context(), scrape); err != nil {
			t.Fatal(err)
		}
		fired, err := replay.Evaluate(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range fired {
			got = append(got, fmt.Sprintf("%d %s %s %s", minute, one.Alert, one.Labels["pod"], one.Annotations["summary"]))
		}
	}
	if diff := cmp.Diff([]string{"1 Many p 3 of d", "2 Rises p ", "3 Gone  ", "4 Down p ", "5 Many p 3 of d"}, got); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	matrix, err := replay.Range(t.Context(), "b", start, start.Add(2*time.Minute), time.Minute)
	if err != nil || len(matrix) != 1 || len(matrix[0].Floats) != 3 || matrix[0].Floats[2].F != 4 {
		t.Errorf("b: %v, %v", matrix, err)
	}
}
