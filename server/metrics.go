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
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prebind_http_requests_total",
			Help: "HTTP requests answered, by path and status code. A failed bind call counts as 200.",
		}, []string{"path", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prebind_http_requests_in_flight",
			Help: "HTTP requests being served now.",
		}),
	}
	m.requests.WithLabelValues(pathBind, "200") // so that the series starts at 0
	for _, collector := range []prometheus.Collector{m.requests, m.inFlight} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the server's metrics: %w", err)
		}
	}
	return m, nil
}
