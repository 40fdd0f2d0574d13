package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/tools/metrics"

	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/internal/version"
)

// newRegistry returns a registry with what is true of the process as a whole: the
// build, the Go runtime, and the requests to the API server.
func newRegistry(build version.Info) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	// Live bytes are the ones that tell what calls cost; the others have garbage in them.
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	err := instrument.Register(registry, build.Collector(), collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err == nil {
		err = reportRequests(registry)
	}
	return registry, err
}

// requestMetrics are of client-go's requests to the API server, retries and watches
// among them. Their names are those that all Kubernetes programs use; the host is
// left out, as there is one.
type requestMetrics struct {
	results, retries  *prometheus.CounterVec
	duration, limiter *prometheus.HistogramVec
}

// reportRequests has client-go report its requests to the registry. client-go has one
// place for that in the whole process, and takes the first who asks. So that is a
// reporter, which passes on to the registry that came last: before it, a program that
// is started twice in one process, as in tests, would have no metrics the second time.
func reportRequests(registry prometheus.Registerer) error {
	m := &requestMetrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Requests to the API server, each try of them, by method and status code; <error>: there was no answer.",
		}, []string{"method", "code"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_request_retries_total",
			Help: "Requests that client-go sent once more, as the API server asked for that (429, or 5xx with Retry-After), by verb and the code of the new try.",
		}, []string{"verb", "code"}),
		duration: prometheus.NewHistogramVec(instrument.Histogram("rest_client_request_duration_seconds",
			"Time of requests to the API server, all tries together, by verb. Watches are not in it.", instrument.Requests()), []string{"verb"}),
		limiter: prometheus.NewHistogramVec(instrument.Histogram("rest_client_rate_limiter_duration_seconds",
			"Time that requests waited for clientConnection.qps and burst, by verb.", instrument.Requests()), []string{"verb"}),
	}
	if err := instrument.Register(registry, m.results, m.retries, m.duration, m.limiter); err != nil {
		return fmt.Errorf("registering the metrics of requests: %w", err)
	}
	first := &reporter{}
	metrics.Register(metrics.RegisterOpts{
		RequestResult: first, RequestRetry: first,
		RequestLatency: requestLatency{first}, RateLimiterLatency: limiterLatency{first},
	})
	registered, ok := metrics.RequestResult.(*reporter)
	if !ok {
		return errors.New("client-go reports its requests to somebody else in this process")
	}
	registered.to.Store(m)
	return nil
}

// reporter is what client-go calls.
type reporter struct {
	to atomic.Pointer[requestMetrics]
}

var (
	_ metrics.ResultMetric = (*reporter)(nil)
	_ metrics.RetryMetric  = (*reporter)(nil)
)

// Increment implements metrics.ResultMetric.
func (r *reporter) Increment(_ context.Context, code, method, _ string) {
	if m := r.to.Load(); m != nil {
		m.results.WithLabelValues(method, code).Inc()
	}
}

// IncrementRetry implements metrics.RetryMetric.
func (r *reporter) IncrementRetry(_ context.Context, code, method, _ string) {
	if m := r.to.Load(); m != nil {
		m.retries.WithLabelValues(method, code).Inc()
	}
}

type (
	requestLatency struct{ *reporter }
	limiterLatency struct{ *reporter }
)

// Observe implements metrics.LatencyMetric.
func (r requestLatency) Observe(_ context.Context, verb string, _ url.URL, took time.Duration) {
	if m := r.to.Load(); m != nil {
		m.duration.WithLabelValues(verb).Observe(took.Seconds())
	}
}

// Observe implements metrics.LatencyMetric.
func (r limiterLatency) Observe(_ context.Context, verb string, _ url.URL, took time.Duration) {
	if m := r.to.Load(); m != nil {
		m.limiter.WithLabelValues(verb).Observe(took.Seconds())
	}
}
