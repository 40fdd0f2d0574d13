package binder_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// samples lists all metrics, see testkit.Samples.
func (e *env) samples() []string {
	e.t.Helper()
	return testkit.Samples(e.t, e.metrics)
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, plugins{binder.PreBind: {"a"}, binder.Bind: {"b", "c"}}, testkit.Pod("db-1"), testkit.Pod("db-2").OnNode(node7))
		e.spies["b"].do["bind"] = func(context.Context, *binder.Call) error { return binder.ErrSkip }
		e.spies["a"].do["preBind"] = func(_ context.Context, call *binder.Call) error {
			if call.Pod.Name == "db-1" {
				return fault.New(fault.NoCapacity, "full")
			}
			if !slices.Contains(e.samples(), "prebind_bind_calls_in_flight{} 1") {
				t.Error("the call is not counted while it runs")
			}
			return nil
		}
		for _, pod := range []string{"db-0", "db-1", "db-2", "no-such-pod"} {
			_ = e.bind(request(pod))
		}
		if diff := cmp.Diff([]string{
			"prebind_bind_call_duration_seconds{outcome=alreadyBound} 1",
			"prebind_bind_call_duration_seconds{outcome=bound} 1",
			"prebind_bind_call_duration_seconds{outcome=error} 2",
			"prebind_bind_calls_in_flight{} 0",
			"prebind_bind_calls_total{outcome=alreadyBound reason=} 1",
			"prebind_bind_calls_total{outcome=bound reason=} 1",
			"prebind_bind_calls_total{outcome=error reason=Forbidden} 0",
			"prebind_bind_calls_total{outcome=error reason=Internal} 0",
			"prebind_bind_calls_total{outcome=error reason=NoCapacity} 1",
			"prebind_bind_calls_total{outcome=error reason=PodNotFound} 1",
			"prebind_bind_calls_total{outcome=error reason=TooManyCalls} 0",
			fmt.Sprintf("prebind_last_bind_request_timestamp_seconds{} %v", now()),
			"prebind_plugin_duration_seconds{plugin=a result=error stage=preBind} 1",
			"prebind_plugin_duration_seconds{plugin=a result=success stage=preBind} 1",
			"prebind_plugin_duration_seconds{plugin=b result=skip stage=bind} 1",
			"prebind_plugin_duration_seconds{plugin=c result=success stage=bind} 1",
			"prebind_stage_duration_seconds{result=error stage=admit} 1",
			"prebind_stage_duration_seconds{result=error stage=preBind} 1",
			"prebind_stage_duration_seconds{result=success stage=admit} 3",
			"prebind_stage_duration_seconds{result=success stage=bind} 1",
			"prebind_stage_duration_seconds{result=success stage=permit} 2",
			"prebind_stage_duration_seconds{result=success stage=postBind} 1",
			"prebind_stage_duration_seconds{result=success stage=preBind} 1",
			"prebind_stage_duration_seconds{result=success stage=reserve} 2",
			"prebind_stage_duration_seconds{result=success stage=unreserve} 1",
		}, e.samples()); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		families, err := e.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("problems: %v, error %v", problems, err)
		}
	})
}

// now is the bubble's time, as metrics have it.
func now() float64 { return float64(time.Now().Unix()) }

// TestLastBindRequest: the gauge tells when a scheduler last called, even if the
// call was refused.
func TestLastBindRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startLimited(t, 1, posts)
		want := func(timestamp float64) {
			t.Helper()
			if line := fmt.Sprintf("prebind_last_bind_request_timestamp_seconds{} %v", timestamp); !slices.Contains(e.samples(), line) {
				t.Errorf("no %q in %q", line, e.samples())
			}
		}
		want(0)
		_ = e.bind(binder.Request{})
		want(now())
		time.Sleep(time.Hour) // the bubble's
		want(now() - 3600)

		g := &gate{open: make(chan error), heeds: true}
		e.spies["a"].do["preBind"] = g.pass
		first := e.call(request("db-0"))
		time.Sleep(time.Minute)
		wantText(t, e.bind(request("db-1")), "TooManyCalls: this replica of prebind runs server.maxBindCalls (1) bind calls already; the scheduler tries again")
		want(now())
		g.open <- nil
		first.ends("")
	})
}
