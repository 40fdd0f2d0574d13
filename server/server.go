package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Server holds the two listeners.
type Server struct {
	cfg      Config
	metrics  *metrics
	draining atomic.Bool

	verbs, ops *listener
}

// listener is one address and what is served on it.
type listener struct {
	name string
	net.Listener
	http *http.Server
}

// New opens both listeners, so that an address in use is an error here, and
// registers the server's metrics. Clients may connect at once and are answered
// once Run is called. Run must be called, also to close the listeners.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	if s.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, err
	}
	if s.verbs, err = s.listen("extender verbs", "server.address", cfg.Address, s.verbRoutes()); err != nil {
		return nil, err
	}
	if s.ops, err = s.listen("health and metrics", "server.opsAddress", cfg.OpsAddress, s.opsRoutes()); err != nil {
		return nil, errors.Join(err, s.verbs.Close())
	}
	return s, nil
}

// listen opens one listener. key is where its address stands in the
// configuration.
func (s *Server) listen(name, key, address string, handler http.Handler) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s on %s (%s): %w", name, address, key, err)
	}
	errorLog, err := zap.NewStdLogAt(s.cfg.Logger.Named("http"), zap.WarnLevel)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the log of net/http: %w", err), l.Close())
	}
	return &listener{name: name, Listener: l, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
		// No WriteTimeout: a bind call waits for volumes, for minutes. No
		// ReadTimeout: it would end the context of a call that waits; see
		// readBody.
	}}, nil
}

// Addr is the address of the verbs, with the port that was really taken.
func (s *Server) Addr() net.Addr { return s.verbs.Addr() }

// OpsAddr is the address of health and metrics.
func (s *Server) OpsAddr() net.Addr { return s.ops.Addr() }

// Run serves until ctx is done, or until a listener fails, and then stops: it
// turns unready, refuses new calls, calls Drain, waits up to DrainTimeout for
// the running calls to be answered, and closes the ops listener last, so that
// health can be seen to the end. The error says what failed, or that calls
// were cut off; an orderly stop is nil. Call Run once.
func (s *Server) Run(ctx context.Context) error {
	var serving errgroup.Group
	failed, fail := context.WithCancel(ctx)
	defer fail()
	for _, l := range []*listener{s.ops, s.verbs} {
		serving.Go(func() error {
			defer fail()
			if err := l.http.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving %s: %w", l.name, err)
			}
			return nil
		})
	}
	s.cfg.Logger.Info("serving", zap.Stringer("address", s.Addr()), zap.Stringer("opsAddress", s.OpsAddr()))
	<-failed.Done()

	s.draining.Store(true)
	s.cfg.Logger.Info("stopping", zap.Duration("drainTimeoutMs", s.cfg.DrainTimeout))
	s.cfg.Drain()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	return errors.Join(s.verbs.stop(deadline), s.ops.stop(deadline), serving.Wait())
}

// stop lets running requests end until ctx is done, then cuts them off.
func (l *listener) stop(ctx context.Context) error {
	if err := l.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stopping %s, requests were cut off: %w", l.name, err), l.http.Close())
	}
	return nil
}
