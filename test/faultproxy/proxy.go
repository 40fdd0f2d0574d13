package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options say where the proxy stands.
type Options struct {
	// Target is the API server: its address and CA count, its credentials do
	// not. Required.
	Target *rest.Config
	// Seed decides which requests a Rule with a Share disturbs.
	Seed uint64
}

// Proxy is a running proxy. Its methods may be called in parallel.
type Proxy struct {
	opts    Options
	server  *http.Server
	address string
	reverse *httputil.ReverseProxy
	log     log
	watches watches

	mu    sync.Mutex
	rules []*Disturbance
	stale map[string]string // resource -> resourceVersion, see ServeStaleLists
}

// Start listens on a free port of loopback and serves until Stop.
func Start(opts Options) (*Proxy, error) {
	target, err := url.Parse(opts.Target.Host)
	if err != nil {
		return nil, fmt.Errorf("starting the fault proxy: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(opts.Target))
	if err != nil {
		return nil, fmt.Errorf("starting the fault proxy: %w", err)
	}
	certificate, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("starting the fault proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the fault proxy: %w", err)
	}
	p := &Proxy{
		opts:    opts,
		address: "https://" + listener.Addr().String(),
		log:     log{changed: make(chan struct{})},
		watches: watches{open: map[*openWatch]bool{}, holds: map[*WatchHold]bool{}},
		stale:   map[string]string{},
	}
	// Broken connections are what the proxy is for.
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.reverse = &httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1, // watch events must not wait
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: noteStatus,
		// A dead API server looks like one: no answer at all.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     quiet,
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: quiet,
		// HTTP/1.1 alone: a connection that is cut takes no other request along.
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// URL is where clients find the proxy, as in https://127.0.0.1:12345. Its
// certificate is self-signed.
func (p *Proxy) URL() string { return p.address }

// Stop cuts all connections and ends the proxy.
func (p *Proxy) Stop() {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	for _, d := range rules {
		d.Stop()
	}
	_ = p.server.Close()
}

// Disturb lets rule work on the requests that come from now on. When several
// rules match, the oldest one that is not exhausted acts.
func (p *Proxy) Disturb(rule Rule) *Disturbance {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &Disturbance{
		rule: rule, index: len(p.rules), proxy: p,
		gate: make(chan struct{}), changed: make(chan struct{}), seen: map[string]int{},
	}
	p.rules = append(p.rules, d)
	return d
}

// Calm ends all disturbances.
func (p *Proxy) Calm() {
	p.mu.Lock()
	rules := p.rules
	clear(p.stale)
	p.mu.Unlock()
	for _, d := range rules {
		d.Stop()
	}
}

// ServeStaleLists makes lists of the resource show the state at the
// resourceVersion, as an API server does that lags behind another. Streaming
// lists are refused, so that clients fall back to lists. Watches go on from
// there, so hold them too if the client shall stay behind.
func (p *Proxy) ServeStaleLists(resource, resourceVersion string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale[resource] = resourceVersion
}

// exchange is one request on its way.
type exchange struct {
	proxy  *Proxy
	w      http.ResponseWriter
	r      *http.Request
	record *record
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := parse(r)
	if err != nil {
		http.Error(w, "fault proxy: "+err.Error(), http.StatusBadRequest)
		return
	}
	request.Query, request.Begin = r.URL.RawQuery, time.Now()
	if isWrite(request.Verb) {
		if request.Body, err = io.ReadAll(r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(request.Body))
	}
	disturbance := p.disturbs(&request)
	if disturbance != nil {
		request.Fault = disturbance.rule.Do.name
	}
	e := &exchange{proxy: p, r: r, record: p.log.add(request)}
	e.w = &answerWriter{ResponseWriter: w, record: e.record}
	defer e.record.update(func(r *Request) { r.End = time.Now() })
	switch {
	case disturbance != nil:
		disturbance.rule.Do.do(disturbance, e)
	case p.refusesStream(&request):
		e.refuse(http.StatusMethodNotAllowed, 0)
	default:
		e.forward(e.w)
	}
}

func (p *Proxy) disturbs(r *Request) *Disturbance {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	for _, d := range rules {
		if d.take(r) {
			return d
		}
	}
	return nil
}

// recordKey finds the record of a request in its context.
type recordKey struct{}

// forward sends the request to the API server and its answer to w.
func (e *exchange) forward(w http.ResponseWriter) {
	request := e.record.snapshot()
	ctx, cancel := context.WithCancel(context.WithValue(e.r.Context(), recordKey{}, e.record))
	defer cancel()
	r := e.r.WithContext(ctx)
	switch request.Verb {
	case "watch":
		defer e.proxy.watches.enter(request, cancel)()
		w = &watchWriter{ResponseWriter: w, ctx: ctx, request: request, watches: &e.proxy.watches}
	case "list":
		r = e.proxy.makeStale(r, &request)
	}
	e.proxy.reverse.ServeHTTP(w, r)
}

// noteStatus records what the API server answered.
func noteStatus(answer *http.Response) error {
	rec, ok := answer.Request.Context().Value(recordKey{}).(*record)
	if !ok {
		return errors.New("fault proxy: a request without a record")
	}
	rec.update(func(r *Request) { r.Status = answer.StatusCode })
	return nil
}
