package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
)

// metrics of both listeners. A path that is not one of ours counts as "other",
// so that no caller can add to the number of series.
type metrics struct {
	requests   *prometheus.CounterVec
	inFlight   prometheus.Gauge
	late       *prometheus.CounterVec
	callErrors *prometheus.CounterVec
	// nodesDuration is of filter and prioritize, for which the scheduler stands
	// still. Bind calls, which wait, are the binder's to measure.
	nodesDuration *prometheus.HistogramVec
	// The rest is registered only with TLS: an expiry of 0 would look like an
	// emergency.
	certificateExpiry prometheus.Gauge
	clientRefusals    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, overTLS bool) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_http_requests_total",
			Help: "HTTP requests answered, by path and status code. A failed bind call counts as 200.",
		}, []string{"path", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_http_requests_in_flight",
			Help: "HTTP requests being served now.",
		}),
		late: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_late_answers_total",
			Help: "Answers that nobody read, since the caller had hung up, by path.",
		}, []string{"path"}),
		callErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_call_errors_total",
			Help: "Bind, filter and prioritize calls answered with an error, by path and reason; those that are refused before they are looked at, too.",
		}, []string{"path", "reason"}),
		nodesDuration: prometheus.NewHistogramVec(instrument.Histogram("prebind_nodes_call_duration_seconds",
			"Time of a filter or prioritize call, body and answer included, by path.",
			prometheus.ExponentialBuckets(0.00025, 2, 14), // to 2 s
		), []string{"path"}),
		certificateExpiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_tls_certificate_expiration_timestamp_seconds",
			Help: "Unix time at which the serving certificate in use expires.",
		}),
		clientRefusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_tls_client_refusals_total",
			Help: "Handshakes and requests on the extender's port that were refused because of who sent them, or because they were no TLS, by reason.",
		}, []string{"reason"}),
	}
	m.requests.WithLabelValues(pathBind, "200") // so that the series starts at 0
	for _, path := range []string{pathBind, pathFilter, pathPrioritize} {
		m.late.WithLabelValues(path)
		m.callErrors.WithLabelValues(path, string(fault.NotReady))
	}
	collectors := []prometheus.Collector{m.requests, m.inFlight, m.late, m.callErrors, m.nodesDuration}
	if overTLS {
		collectors = append(collectors, m.certificateExpiry, m.clientRefusals)
	}
	if err := instrument.Register(registry, collectors...); err != nil {
		return nil, fmt.Errorf("registering the server's metrics: %w", err)
	}
	return m, nil
}
