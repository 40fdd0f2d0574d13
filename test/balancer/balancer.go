package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Backend is one replica.
type Backend struct {
	// URL is where requests go, as in http://127.0.0.1:20001.
	URL string
	// OpsURL is where /readyz is.
	OpsURL string
}

// Options say how the balancer behaves. The zero value is a good one.
type Options struct {
	// Interval is the pause between two looks at a replica's readiness. One look
	// that fails takes the replica out. Zero: 50 ms.
	Interval time.Duration
	// Timeout is how long one look may take. Zero: 5 s, for machines that are
	// busy; a replica that is frozen gets requests until then.
	Timeout time.Duration
	// Answered is told of each request when its answer is known, before the
	// caller gets it. It is called in parallel. Nil: nobody.
	Answered func(Exchange)
}

// Exchange is one request with its answer.
type Exchange struct {
	// Backend is the URL of the replica that it was sent to; empty if none was
	// ready or none could be reached.
	Backend string
	Method  string
	Path    string
	Request []byte // the body
	// Code is the status that the caller gets: the replica's, 502 if it did not
	// answer, 503 if there was no replica.
	Code   int
	Answer []byte // the body
	// Err is why the replica did not answer, nil if it did. It is
	// context.Canceled for a caller that hung up.
	Err error
}

// Balancer is a running balancer.
type Balancer struct {
	opts      Options
	backends  []*backend
	turn      atomic.Uint64
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

// Start serves on a free port of 127.0.0.1 until Stop or the end of ctx. It
// returns when each backend's readiness has been looked at once.
func Start(ctx context.Context, opts Options, backends ...Backend) (*Balancer, error) {
	if opts.Interval == 0 {
		opts.Interval = 50 * time.Millisecond
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	if opts.Answered == nil {
		opts.Answered = func(Exchange) {}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the balancer: %w", err)
	}
	b := &Balancer{
		opts: opts, listener: listener,
		// A kept connection that the replica closes at the same moment would look
		// like a lost request.
		transport: &http.Transport{DisableKeepAlives: true},
	}
	ctx, b.cancel = context.WithCancel(ctx)
	for _, address := range backends {
		backend := &backend{Backend: address}
		b.backends = append(b.backends, backend)
		b.look(ctx, backend)
		b.running.Go(func() { b.watch(ctx, backend) })
	}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	b.running.Go(func() { _ = b.server.Serve(listener) }) // always ErrServerClosed
	b.running.Go(func() {
		<-ctx.Done()
		_ = b.server.Close() // its one error is the listener's, which is closed then
	})
	return b, nil
}

// URL is the one address, as in http://127.0.0.1:40001.
func (b *Balancer) URL() string { return "http://" + b.listener.Addr().String() }

// Stop closes the address and cuts the requests that are under way.
func (b *Balancer) Stop() {
	b.cancel()
	b.running.Wait()
}

// ServeHTTP passes one request on.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	exchange := Exchange{Method: r.Method, Path: r.URL.Path}
	var header http.Header
	if exchange.Request, exchange.Err = io.ReadAll(r.Body); exchange.Err == nil {
		header = b.exchange(r, &exchange)
	}
	switch {
	case exchange.Err == nil:
		for _, name := range []string{"Content-Type", "X-Request-Id", "Allow"} {
			w.Header()[name] = header[name]
		}
	case exchange.Backend == "":
		exchange.Code = http.StatusServiceUnavailable
	default:
		exchange.Code = http.StatusBadGateway
	}
	if exchange.Err != nil {
		exchange.Answer = []byte("balancer: " + exchange.Err.Error() + "\n")
	}
	b.opts.Answered(exchange)
	w.WriteHeader(exchange.Code)
	_, _ = w.Write(exchange.Answer) // a caller that has gone is no news
}

// errNoBackend says that no replica is ready.
var errNoBackend = errors.New("no replica is ready")

// exchange sends the request to the first ready replica that takes the
// connection, and fills in what came of it.
func (b *Balancer) exchange(r *http.Request, e *Exchange) (header http.Header) {
	e.Err = errNoBackend
	for _, backend := range b.ready() {
		var response *http.Response
		response, e.Err = b.send(r, backend, e.Request)
		if refused(e.Err) {
			continue
		}
		e.Backend = backend.URL
		if e.Err != nil {
			return nil
		}
		e.Code = response.StatusCode
		e.Answer, e.Err = io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		return response.Header
	}
	return nil
}
