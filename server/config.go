package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/volumes"
)

// Binder does the work behind POST /v1/bind.
type Binder interface {
	// Bind returns nil only after the API server confirmed that the pod is on
	// the node. The text of its error goes to the scheduler. ctx ends when the
	// caller hangs up. Bind writes the one log line of the call. It is called
	// in parallel, also with missing or malformed arguments, which it refuses.
	Bind(ctx context.Context, req binder.Request) error
}

// Nodes does the work behind POST /v1/filter and /v1/prioritize. Its methods are
// called in parallel, inside kube-scheduler's only loop: they do no I/O. Their
// results have one element for each node. Of the pod there are the names, the UID,
// the version, the node, and the volumes that are claims.
type Nodes interface {
	// Seen is told of each pod that /v1/filter is called for, before Filter. It
	// may keep the pod.
	Seen(pod *v1.Pod)
	// Filter returns why the pod cannot go to a node, in words for the pod's event,
	// or "". Like Score it is called for pods with claims alone. An error is a fault of ours: it ends the pod's scheduling attempt.
	Filter(ctx context.Context, pod *v1.Pod, nodes []volumes.Node) ([]string, error)
	// Score returns how well the pod fits on a node, 0 to 10.
	Score(ctx context.Context, pod *v1.Pod, nodes []volumes.Node) ([]int64, error)
}

// Check is one named condition of readiness.
type Check struct {
	// Name is what /readyz?verbose lists, such as "cache-pods".
	Name string
	// Check returns why the process is not ready, or nil. It is called on each
	// GET /readyz and before each verb, in parallel: it must be quick and
	// do no I/O.
	Check func() error
}

// Defaults of Config.
const (
	DefaultMaxBindBytes   = 64 << 10
	DefaultMaxFilterBytes = 128 << 20
	DefaultBodyTimeout    = 10 * time.Second
	DefaultDrainTimeout   = 25 * time.Second
)

// Limits that nobody needs to tune.
const (
	// readHeaderTimeout bounds how long a client may take to send a header.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is above the 90 s after which kube-scheduler closes an idle
	// connection: the side that sends must close first, or a call is lost
	// that it believes to be on a live connection.
	idleTimeout = 120 * time.Second
	// noKeepAlive turns TCP's probes off for verbs on loopback, where a caller
	// that dies hangs up; and the probes of thousands of calls that came in
	// together are sent together, so that a busy kernel drops some
	// (net.core.netdev_max_backlog), and with them, in the end, the calls.
	// Elsewhere a machine that dies says nothing, so there are probes, and over
	// HTTP/2 few connections to send them on.
	noKeepAlive = -1
	// maxHeaderBytes is far above the few hundred bytes of a real header.
	maxHeaderBytes = 32 << 10
)

// Config is what New needs.
type Config struct {
	// Address is where the verbs are served, host:port. Port 0 takes a free
	// one, see Server.Addr. Required.
	Address string
	// OpsAddress is where health and metrics are served. Required.
	OpsAddress string

	// TLS makes Address speak HTTPS. Nil means plain HTTP.
	TLS *TLS

	// Binder answers POST /v1/bind. Required.
	Binder Binder
	// Nodes answers POST /v1/filter and /v1/prioritize. Required.
	Nodes Nodes
	// Checks must all pass before verbs are served. While one fails /readyz is
	// 503 and verbs answer NotReady. May be empty.
	Checks []Check
	// Drain is called once, when Run stops and new calls are refused already.
	// It must make the calls that still run in Binder end soon, and return when
	// nothing is at work there any more, or with an error when ctx ends. May be
	// nil.
	Drain func(ctx context.Context) error

	// Debug returns what GET /debug/prebind answers, to be encoded as JSON. It is
	// called in parallel and must be bounded in size. Nil means that the path is
	// off: 404, with a word on how to turn it on.
	Debug func() any

	// Trace makes a span of each call of a verb. Nil: calls are not traced.
	Trace func(http.Handler) http.Handler

	// Logger gets starts, stops, bad requests and panics. Nil logs nothing.
	Logger *zap.Logger
	// Registry is what /metrics shows, and where the server registers its own
	// metrics. Nil makes a new one.
	Registry *prometheus.Registry

	// MaxBindBytes limits the body of POST /v1/bind. 0 means
	// DefaultMaxBindBytes.
	MaxBindBytes int64
	// MaxFilterBytes limits the body of POST /v1/filter and /v1/prioritize, where
	// nodes may be sent whole. 0 means DefaultMaxFilterBytes.
	MaxFilterBytes int64
	// BodyTimeout limits how long a body may take to arrive. It does not limit
	// the call itself. 0 means DefaultBodyTimeout.
	BodyTimeout time.Duration
	// ShutdownDelay is how long Run goes on as before once it has turned
	// unready, and only then stops. 0 means no delay.
	ShutdownDelay time.Duration
	// DrainTimeout is how long Run waits for running calls when it stops;
	// connections that are open after it are cut. 0 means DefaultDrainTimeout,
	// which is under the 30 s that a pod gets before it is killed.
	DrainTimeout time.Duration
}

// withDefaults returns the configuration with its defaults filled in.
func (c Config) withDefaults() (Config, error) {
	if c.Binder == nil {
		return c, errors.New("server.Config.Binder is missing")
	}
	if c.Nodes == nil {
		return c, errors.New("server.Config.Nodes is missing")
	}
	if c.Drain == nil {
		c.Drain = func(context.Context) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.MaxBindBytes == 0 {
		c.MaxBindBytes = DefaultMaxBindBytes
	}
	if c.MaxFilterBytes == 0 {
		c.MaxFilterBytes = DefaultMaxFilterBytes
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	var err error
	c.TLS, err = c.TLS.withDefaults()
	return c, err
}
