package instrument_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/internal/testkit"
)

func answered(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code}}
}

func TestWritesByResult(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"done":             {nil, "success"},
		"conflict":         {answered(409), "conflict"},
		"wrapped":          {fmt.Errorf("patching: %w", answered(409)), "conflict"},
		"gone":             {answered(404), "not_found"},
		"too many":         {answered(429), "throttled"},
		"no right":         {answered(403), "forbidden"},
		"nobody":           {answered(401), "forbidden"},
		"bad patch":        {answered(400), "invalid"},
		"unprocessable":    {answered(422), "invalid"},
		"fault there":      {answered(500), "server_error"},
		"no quorum":        {answered(504), "server_error"},
		"the caller ended": {context.DeadlineExceeded, "no_answer"},
		"no code":          {answered(0), "no_answer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			writes, err := instrument.NewWrites(registry)
			if err != nil {
				t.Fatal(err)
			}
			writes.Sent(instrument.Claims, tc.err)
			want := []string{fmt.Sprintf("prebind_api_writes_total{object=persistentvolumeclaims result=%s} 1", tc.want)}
			if diff := cmp.Diff(want, testkit.Samples(t, registry)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// Two packages count into the same metric.
func TestWritesAreShared(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := instrument.NewWrites(registry, instrument.Volumes)
	if err != nil {
		t.Fatal(err)
	}
	second, err := instrument.NewWrites(registry, instrument.Bindings)
	if err != nil {
		t.Fatal(err)
	}
	first.Sent(instrument.Volumes, nil)
	first.Again(instrument.Volumes, answered(409))
	second.Sent(instrument.Bindings, nil)
	second.Sent(instrument.Bindings, nil)
	if diff := cmp.Diff([]string{
		"prebind_api_write_retries_total{after=conflict object=persistentvolumes} 1",
		"prebind_api_write_retries_total{after=conflict object=pods/binding} 0",
		"prebind_api_writes_total{object=persistentvolumes result=success} 1",
		"prebind_api_writes_total{object=pods/binding result=success} 2",
	}, testkit.Samples(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// Who gives no registry gets metrics that nobody sees.
func TestNoRegistry(t *testing.T) {
	writes, err := instrument.NewWrites(nil, instrument.Volumes)
	if err != nil {
		t.Fatal(err)
	}
	writes.Sent(instrument.Volumes, nil)
}

func TestRegisterTwiceIsAnError(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := func() prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts{Name: "g", Help: "g"}) }
	if err := instrument.Register(registry, gauge(), gauge()); err == nil {
		t.Error("no error")
	}
}

func TestHistogramIsClassicAndNative(t *testing.T) {
	registry := prometheus.NewRegistry()
	histogram := prometheus.NewHistogram(instrument.Histogram("h_seconds", "h", instrument.Waits()))
	if err := instrument.Register(registry, histogram); err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 { // far more different values than there may be buckets
		histogram.Observe(float64(i) * float64(i) / 1e6)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := families[0].GetMetric()[0].GetHistogram()
	if n := len(got.GetBucket()); n != len(instrument.Waits()) {
		t.Errorf("%d classic buckets", n)
	}
	if n := len(got.GetPositiveDelta()); n == 0 || n > 160 {
		t.Errorf("%d native buckets", n)
	}
}
