package binder

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a plugin's run.
const (
	resultSuccess = "success"
	resultError   = "error"
	resultSkip    = "skip"
)

// metrics of the binding cycle. No label ever holds the name of an object.
type metrics struct {
	calls          *prometheus.CounterVec
	callDuration   *prometheus.HistogramVec
	stageDuration  *prometheus.HistogramVec
	pluginDuration *prometheus.HistogramVec
	inFlight       prometheus.Gauge
	lastRequest    prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	// From a Binding alone (milliseconds) to a slow provisioner (minutes).
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_bind_calls_total",
			Help: "Bind calls by outcome (bound, alreadyBound, error) and, for errors, reason.",
		}, []string{"outcome", "reason"}),
		callDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prebind_bind_call_duration_seconds", Buckets: buckets,
			Help: "Time from the start of a bind call to its answer, by outcome.",
		}, []string{"outcome"}),
		stageDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prebind_stage_duration_seconds", Buckets: buckets,
			Help: "Time that a stage of the binding cycle took, all its plugins together, by result (success, error).",
		}, []string{"stage", "result"}),
		pluginDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prebind_plugin_duration_seconds", Buckets: buckets,
			Help: "Time that a plugin took in a stage of the binding cycle, by result (success, error, skip).",
		}, []string{"stage", "plugin", "result"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_bind_calls_in_flight",
			Help: "Bind calls running now.",
		}),
		lastRequest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_last_bind_request_timestamp_seconds",
			Help: "Unix time at which the last bind call came in, refused ones included; 0 before the first: no scheduler calls this replica.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.calls, m.callDuration, m.stageDuration, m.pluginDuration, m.inFlight, m.lastRequest} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the binder's metrics: %w", err)
		}
	}
	return m, nil
}
