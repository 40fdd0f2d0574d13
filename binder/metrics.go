package binder

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
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
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_bind_calls_total",
			Help: "Bind calls by outcome (bound, alreadyBound, error) and, for errors, reason.",
		}, []string{"outcome", "reason"}),
		callDuration: prometheus.NewHistogramVec(instrument.Histogram("prebind_bind_call_duration_seconds",
			"Time from the start of a bind call to its answer, by outcome.", instrument.Waits()), []string{"outcome"}),
		stageDuration: prometheus.NewHistogramVec(instrument.Histogram("prebind_stage_duration_seconds",
			"Time that a stage of the binding cycle took, all its plugins together, by result (success, error).", instrument.Waits()), []string{"stage", "result"}),
		pluginDuration: prometheus.NewHistogramVec(instrument.Histogram("prebind_plugin_duration_seconds",
			"Time that a plugin took in a stage of the binding cycle, by result (success, error, skip).", instrument.Waits()), []string{"stage", "plugin", "result"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_bind_calls_in_flight",
			Help: "Bind calls running now.",
		}),
		lastRequest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_last_bind_request_timestamp_seconds",
			Help: "Unix time at which the last bind call came in, refused ones included; 0 before the first: no scheduler calls this replica.",
		}),
	}
	// These start at 0, or an alert would not see the first.
	m.calls.WithLabelValues(outcomeBound, "")
	for _, code := range []fault.Code{fault.Internal, fault.Forbidden, fault.TooManyCalls} {
		m.calls.WithLabelValues(outcomeError, string(code))
	}
	if err := instrument.Register(registry, m.calls, m.callDuration, m.stageDuration, m.pluginDuration, m.inFlight, m.lastRequest); err != nil {
		return nil, fmt.Errorf("registering the binder's metrics: %w", err)
	}
	return m, nil
}
