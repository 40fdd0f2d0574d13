package balancer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// backend is a replica and whether its last look was good.
type backend struct {
	Backend
	ready atomic.Bool
}

// watch looks at the backend until ctx ends.
func (b *Balancer) watch(ctx context.Context, backend *backend) {
	ticker := time.NewTicker(b.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.look(ctx, backend)
		case <-ctx.Done():
			return
		}
	}
}

// look asks for the backend's readiness once.
func (b *Balancer) look(ctx context.Context, backend *backend) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, backend.OpsURL+"/readyz", nil)
	if err != nil {
		backend.ready.Store(false)
		return
	}
	response, err := b.transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close() // the status says it all
	}
	backend.ready.Store(err == nil && response.StatusCode == http.StatusOK)
}

// ready returns the ready backends, another one first each time.
func (b *Balancer) ready() []*backend {
	var ready []*backend
	for _, backend := range b.backends {
		if backend.ready.Load() {
			ready = append(ready, backend)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	first := int((b.turn.Add(1) - 1) % uint64(len(ready)))
	return append(append([]*backend{}, ready[first:]...), ready[:first]...)
}

// Ready returns the URLs of the backends that get requests now.
func (b *Balancer) Ready() []string {
	var urls []string
	for _, backend := range b.backends {
		if backend.ready.Load() {
			urls = append(urls, backend.URL)
		}
	}
	return urls
}

// send sends the request once.
func (b *Balancer) send(r *http.Request, backend *backend, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, backend.URL+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.GetBody = nil // with it the transport would send again on its own
	for _, name := range []string{"Content-Type", "X-Request-Id", "User-Agent"} {
		if values := r.Header[name]; values != nil {
			request.Header[name] = values
		}
	}
	return b.transport.RoundTrip(request)
}

// refused tells whether no connection came about.
func refused(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial"
}
