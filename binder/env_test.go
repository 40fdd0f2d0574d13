package binder_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

const (
	node7       = "node-7"
	bindTimeout = 10 * time.Minute
)

// plugins names the plugins of each stage.
type plugins map[binder.Stage][]string

// builtIn is the default configuration.
var builtIn = plugins{
	binder.Reserve: {binder.VolumeBindingName},
	binder.PreBind: {binder.VolumeBindingName},
	binder.Bind:    {binder.DefaultBinderName},
}

// everywhere has the spies of these names in all stages.
func everywhere(names ...string) plugins {
	p := plugins{}
	for _, stage := range binder.Stages() {
		p[stage] = names
	}
	return p
}

// env is a Binder with real informers on the fake API, in a synctest bubble.
type env struct {
	*testkit.API
	t       *testing.T
	b       *binder.Binder
	logs    *observer.ObservedLogs
	metrics *prometheus.Registry
	volumes *volumes.Prebinder
	journal journal
	told    journal // events
	spies   map[string]*spy
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// start returns an env with node-7, the classes local and fast, the pod db-0,
// and the objects. Plugins a, b and c are spies.
func start(t *testing.T, enabled plugins, objects ...runtime.Object) *env {
	t.Helper()
	return startWith(t, func(*env, *binder.Config) {}, enabled, objects...)
}

// startLimited is start with a limit on the calls at once.
func startLimited(t *testing.T, maxCalls int, enabled plugins, objects ...runtime.Object) *env {
	t.Helper()
	return startWith(t, func(_ *env, cfg *binder.Config) { cfg.MaxCalls = maxCalls }, enabled, objects...)
}

// startWith is start with more of a configuration.
func startWith(t *testing.T, configure func(e *env, cfg *binder.Config), enabled plugins, objects ...runtime.Object) *env {
	t.Helper()
	api := testkit.NewAPI(t, testkit.Node(node7), testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"))
	api.Put(testkit.Pod("db-0"))
	api.Put(objects...)
	return startOn(t, api, configure, enabled)
}

// startOn returns an env with a Binder on this API.
func startOn(t *testing.T, api *testkit.API, configure func(e *env, cfg *binder.Config), enabled plugins) *env {
	t.Helper()
	e := &env{API: api, t: t, metrics: prometheus.NewRegistry(), spies: map[string]*spy{}}
	registry := binder.NewRegistry()
	for _, name := range []string{"a", "b", "c"} {
		e.spies[name] = &spy{name: name, journal: &e.journal, do: map[string]func(context.Context, *binder.Call) error{}}
		registry[name] = func(binder.Handle) (binder.Plugin, error) { return e.spies[name], nil }
	}
	caches, err := volumes.NewCaches(e.Client)
	if err != nil {
		t.Fatal(err)
	}
	if e.volumes, err = volumes.New(volumes.Config{Client: e.Client, Caches: caches, Events: &e.told}); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	e.logs = logs
	cfg := binder.Config{
		Client: e.Client, Caches: caches, Volumes: e.volumes, Logger: zap.New(core), Metrics: e.metrics,
		Registry: registry, Plugins: enabled, BindTimeout: bindTimeout,
	}
	configure(e, &cfg)
	if e.b, err = binder.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	caches.Start(ctx)
	t.Cleanup(func() {
		synctest.Wait()
		if n := e.volumes.Reserved(); n != 0 {
			t.Errorf("%d volumes are still reserved", n)
		}
		cancel()
		caches.Wait()
	})
	synctest.Wait()
	return e
}

// request asks for the pod on node-7.
func request(pod string) binder.Request {
	return binder.Request{ID: "r-1", Namespace: "shop", Name: pod, UID: testkit.UID(pod), Node: node7}
}

// bind runs one call to its end.
func (e *env) bind(req binder.Request) error { return e.b.Bind(e.t.Context(), req) }

// caller is who waits for a call in the background.
type caller struct {
	t      *testing.T
	hangUp context.CancelFunc
	done   chan struct{}
	err    error
	took   time.Duration
}

// call starts a call and returns when everybody waits.
func (e *env) call(req binder.Request) *caller {
	ctx, hangUp := context.WithCancel(e.t.Context())
	c := &caller{t: e.t, hangUp: hangUp, done: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(c.done)
		defer hangUp()
		c.err = e.b.Bind(ctx, req)
		c.took = time.Since(began)
	}()
	synctest.Wait()
	return c
}

func (c *caller) waits() {
	c.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		c.t.Fatalf("the call has ended: %s", text(c.err))
	default:
	}
}

// ends checks that the call has ended by now, with this text; "" is success.
func (c *caller) ends(want string) {
	c.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		c.t.Fatal("the call still waits")
	}
	wantText(c.t, c.err, want)
}

func text(err error) string { return fault.Text(err) }

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if diff := cmp.Diff(want, text(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

const hungUp = "CallerGone: the scheduler has hung up (is its httpTimeout longer than volumes.bindTimeout?): context canceled"

// did checks what the spies have done so far.
func (e *env) did(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.journal.read()); diff != "" {
		e.t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// wrote checks all writes so far.
func (e *env) wrote(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.Writes()); diff != "" {
		e.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// boundTo checks the node of pod db-0.
func (e *env) boundTo(node string) {
	e.t.Helper()
	if got := e.Pod("db-0").Spec.NodeName; got != node {
		e.t.Errorf("pod db-0 is on node %q, want %q", got, node)
	}
}

// spy is a plugin for every stage. It notes its runs, and does what it is told
// to for a stage.
type spy struct {
	name    string
	journal *journal
	do      map[string]func(ctx context.Context, call *binder.Call) error
}

func (s *spy) run(ctx context.Context, stage string, call *binder.Call) error {
	s.journal.note(stage + " " + s.name)
	if do := s.do[stage]; do != nil {
		return do(ctx, call)
	}
	return nil
}

func (s *spy) Name() string { return s.name }

func (s *spy) Permit(ctx context.Context, call *binder.Call) error {
	return s.run(ctx, "permit", call)
}

func (s *spy) Reserve(ctx context.Context, call *binder.Call) error {
	return s.run(ctx, "reserve", call)
}

func (s *spy) Unreserve(ctx context.Context, call *binder.Call) {
	_ = s.run(ctx, "unreserve", call)
}

func (s *spy) PreBind(ctx context.Context, call *binder.Call) error {
	return s.run(ctx, "preBind", call)
}

func (s *spy) Bind(ctx context.Context, call *binder.Call) error {
	return s.run(ctx, "bind", call)
}

func (s *spy) PostBind(ctx context.Context, call *binder.Call) {
	_ = s.run(ctx, "postBind", call)
}

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}
