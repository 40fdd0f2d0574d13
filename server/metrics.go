package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of both listeners. A path that is not one of ours counts as "other",
// so that no caller can add to the number of series.
type metrics struct {
	requests *prometheus.CounterVec
	inFlight prometheus.Gauge
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
		nodesDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "prebind_nodes_call_duration_seconds",
			Help:    "Time of a filter or prioritize call, body and answer included, by path.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 14), // to 2 s
		}, []string{"path"}),
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
	collectors := []prometheus.Collector{m.requests, m.inFlight, m.nodesDuration}
	if overTLS {
		collectors = append(collectors, m.certificateExpiry, m.clientRefusals)
	}
	for _, collector := range collectors {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the server's metrics: %w", err)
		}
	}
	return m, nil
}
