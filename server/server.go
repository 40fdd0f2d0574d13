package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Server holds the two listeners.
type Server struct {
	cfg     Config
	metrics *metrics

	unready  atomic.Bool // the stop has begun
	draining atomic.Bool // and verbs are refused

	verbs, ops *listener

	// Only with TLS.
	certs    *certificates
	refusals *refusals
	callers  *callers // only with a client CA
}

// listener is one address and what is served on it.
type listener struct {
	name string
	net.Listener
	http *http.Server
	// secure is the Listener if it speaks TLS.
	secure *tlsListener
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
	if s.metrics, err = newMetrics(cfg.Registry, cfg.TLS != nil); err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		if err := s.setUpTLS(); err != nil {
			return nil, err
		}
	}
	if s.verbs, err = s.listen("extender verbs", "server.address", cfg.Address, verbsKeepAlive(cfg.Address), s.verbRoutes()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.ops, err = s.listen("health and metrics", "server.opsAddress", cfg.OpsAddress, 0, s.opsRoutes()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if cfg.TLS != nil {
		s.secure(s.verbs)
	}
	return s, nil
}

// close undoes a New that fails.
func (s *Server) close() error {
	if s.certs != nil {
		s.certs.close()
	}
	if s.verbs != nil {
		return s.verbs.Close()
	}
	return nil
}

// verbsKeepAlive is net.ListenConfig.KeepAlive for the verbs.
func verbsKeepAlive(address string) time.Duration {
	if resolved, err := net.ResolveTCPAddr("tcp", address); err == nil && resolved.IP.IsLoopback() {
		return noKeepAlive
	}
	return 0
}

// listen opens one listener. key is where its address stands in the
// configuration; keepAlive is as in net.ListenConfig.
func (s *Server) listen(name, key, address string, keepAlive time.Duration, handler http.Handler) (*listener, error) {
	config := net.ListenConfig{KeepAlive: keepAlive}
	l, err := config.Listen(context.Background(), "tcp", address)
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

// Run serves until ctx is done, or until a listener fails, and then stops in the
// order of kube-apiserver. It turns unready, and tells each caller to close the
// connection after its answer, but serves on for ShutdownDelay. Then it answers
// new calls ShuttingDown, calls Drain, and waits for the running calls to be
// answered, up to DrainTimeout in all. Then the listeners are closed, ops last,
// so that health can be seen to the end. The error says what failed, or that
// calls were cut off; an orderly stop is nil. Call Run once.
func (s *Server) Run(ctx context.Context) error {
	background, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	if s.certs != nil {
		following.Go(func() { s.certs.run(background) })
	}
	defer following.Wait()
	defer endBackground()
	var serving errgroup.Group
	failed, fail := context.WithCancel(context.WithoutCancel(ctx))
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
	s.cfg.Logger.Info("serving", zap.Stringer("address", s.Addr()), zap.Bool("tls", s.certs != nil), zap.Stringer("opsAddress", s.OpsAddr()))
	s.warnOfExposure()
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	s.unready.Store(true)
	s.cfg.Logger.Info("stopping", zap.Duration("shutdownDelayMs", s.cfg.ShutdownDelay), zap.Duration("drainTimeoutMs", s.cfg.DrainTimeout))
	select {
	case <-time.After(s.cfg.ShutdownDelay):
	case <-failed.Done():
	}
	return errors.Join(s.drain(context.WithoutCancel(ctx)), serving.Wait())
}

// drain refuses new calls and ends those that run, within DrainTimeout.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	s.draining.Store(true)
	s.cfg.Logger.Info("draining")
	// Drain comes first: once net/http shuts down, it hangs up on a new call
	// instead of answering it.
	return errors.Join(s.cfg.Drain(ctx), s.verbs.stop(ctx), s.ops.stop(ctx))
}

// stop lets running requests end until ctx is done, then cuts them off.
func (l *listener) stop(ctx context.Context) error {
	if l.secure != nil {
		defer l.secure.wait()
	}
	if err := l.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stopping %s, requests were cut off: %w", l.name, err), l.http.Close())
	}
	return nil
}
