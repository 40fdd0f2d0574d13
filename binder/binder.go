package binder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/ctxlog"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/internal/logging"
	"github.com/prebind/prebind/internal/tracing"
	"github.com/prebind/prebind/volumes"
)

// Config is what a Binder needs. All fields are required unless they say
// otherwise.
type Config struct {
	Client  kubernetes.Interface
	Caches  *volumes.Caches
	Volumes *volumes.Prebinder
	Logger  *zap.Logger
	// Metrics is where the binder's metrics are registered.
	Metrics prometheus.Registerer
	// Registry has the plugins that Plugins may name.
	Registry Registry
	// Plugins are the enabled plugins of each stage, in order.
	Plugins map[Stage][]string
	// BindTimeout bounds one bind call. It should be shorter than the
	// httpTimeout in the scheduler's configuration, or nobody is there to
	// read why a call took too long.
	BindTimeout time.Duration
	// MaxCalls is how many calls may run at once; more are refused with
	// TooManyCalls, before anything is done for them. 0 means no limit.
	MaxCalls int
	// ProvisioningLimits are for the plugin ProvisioningLimit. Optional.
	ProvisioningLimits ProvisioningLimits
	// Nominator is the client with which the node of a pod that waits long is
	// written to the pod's status.nominatedNodeName; it needs the right to patch
	// pods/status. Optional: nil means that no node is nominated.
	Nominator kubernetes.Interface
	// BoundEvents is told of each pod that was bound, for an event beside the
	// scheduler's own. Nil is nobody.
	BoundEvents volumes.Recorder
}

// Binder runs the binding cycle. One instance serves all calls.
type Binder struct {
	client      kubernetes.Interface
	nominator   kubernetes.Interface // nil: none
	nominations *instrument.Writes   // counts them
	caches      *volumes.Caches
	logger      *zap.Logger
	metrics     *metrics
	plugins     *pipeline
	timeout     time.Duration
	flights     inflight

	running     runningCalls
	bound       lastCalls
	failed      lastCalls
	boundEvents volumes.Recorder

	maxCalls int64
	calls    atomic.Int64 // running, the joined ones among them

	base context.Context // ends with Shutdown
	stop context.CancelCauseFunc
}

// New builds the plugins and returns a Binder. Plugin names that are unknown
// or in a stage that they do not have are returned together in one error.
func New(cfg Config) (*Binder, error) {
	plugins, err := cfg.Registry.build(cfg.Plugins, Handle{
		Client: cfg.Client, Caches: cfg.Caches, Volumes: cfg.Volumes, Metrics: cfg.Metrics,
		ProvisioningLimits: cfg.ProvisioningLimits, BindTimeout: cfg.BindTimeout,
	})
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	var nominations *instrument.Writes
	if cfg.Nominator != nil {
		if nominations, err = instrument.NewWrites(cfg.Metrics, instrument.PodStatus); err != nil {
			return nil, fmt.Errorf("registering the metrics of nominations: %w", err)
		}
	}
	base, stop := context.WithCancelCause(context.Background())
	return &Binder{
		client:      cfg.Client,
		nominator:   cfg.Nominator,
		nominations: nominations,
		caches:      cfg.Caches,
		logger:      cfg.Logger,
		metrics:     metrics,
		plugins:     plugins,
		timeout:     cfg.BindTimeout,
		maxCalls:    int64(cfg.MaxCalls),
		flights:     inflight{cycles: map[types.UID]*flight{}},
		base:        base,
		stop:        stop,

		running:     runningCalls{stages: map[*report]Stage{}},
		boundEvents: cfg.BoundEvents,
	}, nil
}

// Bind runs the binding cycle for one call and returns nil only after the API
// server has confirmed that the pod, by UID, is on the node. Any other end is
// an error with a fault in its chain. When ctx ends, the caller has gone: the
// cycle writes nothing more, except that a Binding already sent is followed
// to its outcome. Safe to call in parallel; see inflight for calls about one
// pod.
func (b *Binder) Bind(ctx context.Context, req Request) error {
	start := time.Now()
	b.metrics.lastRequest.Set(float64(start.UnixMilli()) / 1000)
	defer b.calls.Add(-1)
	err := b.limit(b.calls.Add(1))
	if err == nil {
		err = req.validate()
	}
	if err != nil {
		b.finish(&report{req: req, start: start}, err)
		return err
	}
	taken, err := b.flights.do(ctx, tracing.Carry(b.base, ctx), &req, func(ctx context.Context) error { return b.run(ctx, req) })
	if taken == partJoined {
		tracing.Current(ctx).Event("got the result of another call's binding cycle")
	}
	if taken != partOwn {
		b.finish(&report{req: req, start: start, joined: taken == partJoined}, err)
	}
	return err
}

// limit refuses a call that is one too many. kube-scheduler has no limit of its
// own: a provisioner that hangs would else fill the memory with waiting calls.
func (b *Binder) limit(running int64) error {
	if b.maxCalls == 0 || running <= b.maxCalls {
		return nil
	}
	return fault.New(fault.TooManyCalls, "this replica of prebind runs server.maxBindCalls (%d) bind calls already; the scheduler tries again", b.maxCalls)
}

// Shutdown makes all running calls, and all that come, end at once with a
// retryable error. Bindings already sent are followed to their outcome.
func (b *Binder) Shutdown() {
	b.stop(fault.New(fault.ShuttingDown, "this replica of prebind is shutting down; the scheduler tries again"))
}

// Wait returns when no call is at work, nor a Binding under way whose caller
// has gone. Call it after Shutdown; before, it may never return. The error is
// that of ctx, if that ends first.
func (b *Binder) Wait(ctx context.Context) error { return b.flights.wait(ctx) }

// run is one binding cycle with its deadline, timings and log line.
func (b *Binder) run(ctx context.Context, req Request) (err error) {
	timeout := fault.New(fault.BindTimeout, "volumes.bindTimeout (%s) is over", b.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, timeout)
	defer cancel()
	// Lazy, because most calls log nothing on the way, and an encoder for each
	// one that waits would cost a kilobyte.
	ctx = ctxlog.With(ctx, b.logger.WithLazy(zap.String("requestID", req.ID), logging.Pod(req.Namespace, req.Name)))
	ctx, span := tracing.Start(ctx, "binding cycle")
	r := &report{req: req, start: time.Now()}
	b.running.enter(r, "")
	defer b.running.end(r)
	b.metrics.inFlight.Inc()
	defer b.metrics.inFlight.Dec()
	defer func() {
		// A fault of ours must cost one call, not the process and all its
		// waiting calls.
		if p := recover(); p != nil {
			err = b.panicked(ctx, p)
		}
		err = withCause(ctx, err)
		b.finish(r, err)
		r.trace(span, err)
	}()
	return b.cycle(ctx, r)
}

// panicked logs a panic, with its stack, and makes an error of it.
func (b *Binder) panicked(ctx context.Context, p any) error {
	ctxlog.From(ctx).Error("panic in a bind call", zap.Any("panic", p), zap.Stack("stack"))
	return fault.New(fault.Internal, "panic: %v", p)
}

// withCause puts the reason why the context ended in place of what it made of
// an API call: a bare "context canceled", or an APIError with the reason inside.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if fault.CodeOf(err) == fault.CodeOf(cause) {
		return err
	}
	if errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.CodeOf(cause), "%s (%w)", fault.Detail(cause), err)
	}
	return err
}
