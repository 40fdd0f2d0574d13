package volumes_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// node7 is the node of all bind calls.
const node7 = "node-7"

// env is a Prebinder with real informers on the fake API. It lives in a
// synctest bubble: time stands still unless everybody sleeps, so what ends
// "at once" ends in no time at all.
type env struct {
	*testkit.API
	t       *testing.T
	p       *volumes.Prebinder
	caches  *volumes.Caches
	metrics *prometheus.Registry
}

// bubble runs f in a bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// start returns an env with node-7, the classes local and fast, and the
// objects. At the end of the test no volume may still be reserved, and no claim
// waited for.
func start(t *testing.T, objects ...runtime.Object) *env {
	t.Helper()
	return startWith(t, volumes.Config{}, objects...)
}

// startWith does so with a configuration; client, caches and metrics are filled in.
func startWith(t *testing.T, cfg volumes.Config, objects ...runtime.Object) *env {
	t.Helper()
	api := testkit.NewAPI(t, testkit.Node(node7), testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"))
	api.Put(objects...)
	caches, err := volumes.NewCaches(api.Client)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	cfg.Client, cfg.Caches, cfg.Metrics = api.Client, caches, registry
	p, err := volumes.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	caches.Start(ctx)
	t.Cleanup(func() {
		synctest.Wait()
		if n := p.Reserved(); n != 0 {
			t.Errorf("%d volumes are still reserved", n)
		}
		for _, line := range testkit.Samples(t, registry, "prebind_waiting_claims", "prebind_oldest_wait_seconds") {
			if !strings.HasSuffix(line, " 0") {
				t.Errorf("at the end: %s", line)
			}
		}
		cancel()
		caches.Wait()
	})
	synctest.Wait()
	for resource, synced := range caches.Synced() {
		if !synced() {
			t.Fatalf("the cache of %s is not synced", resource)
		}
	}
	return &env{API: api, t: t, p: p, caches: caches, metrics: registry}
}

// bind does what the VolumeBinding plugin does in a whole binding cycle.
func (e *env) bind(ctx context.Context, pod testkit.PodBuilder) error {
	reservation, err := e.p.Reserve(ctx, e.pod(pod), node7)
	if err != nil {
		return err
	}
	defer e.p.Unreserve(reservation)
	return e.p.Bind(ctx, e.pod(pod), reservation)
}

// pod returns the pod as the API has it, if it does.
func (e *env) pod(pod testkit.PodBuilder) *v1.Pod {
	if now := e.Pod(pod.Name); now != nil && now.UID == pod.UID {
		return now
	}
	return pod.Pod
}

// call is a bind call in the background.
type call struct {
	t      *testing.T
	cancel context.CancelCauseFunc
	began  time.Time
	done   chan struct{}
	err    error
	took   time.Duration
}

// call starts a bind call and returns when it waits for something.
func (e *env) call(pod testkit.PodBuilder) *call {
	return e.callWithin(pod, 10*time.Minute)
}

func (e *env) callWithin(pod testkit.PodBuilder, limit time.Duration) *call {
	timeout := fault.New(fault.BindTimeout, "volumes.bindTimeout (%s) is over", limit)
	ctx, stop := context.WithTimeoutCause(e.t.Context(), limit, timeout)
	e.t.Cleanup(stop)
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{t: e.t, cancel: cancel, began: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = e.bind(ctx, pod)
		c.took = time.Since(c.began)
	}()
	synctest.Wait()
	return c
}

// waits fails the test if the call has ended.
func (c *call) waits() {
	c.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		c.t.Fatalf("the call has ended: %s", text(c.err))
	default:
	}
}

// ends checks that the call has ended by now, with this text; "" is success.
func (c *call) ends(want string) {
	c.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		c.t.Fatal("the call still waits")
	}
	if diff := cmp.Diff(want, text(c.err)); diff != "" {
		c.t.Errorf("error (-want +got):\n%s", diff)
	}
}

// endsAfter waits for the call's end, which must come after exactly d.
func (c *call) endsAfter(d time.Duration, want string) {
	c.t.Helper()
	<-c.done
	c.ends(want)
	if c.took != d {
		c.t.Errorf("the call took %s, want %s", c.took, d)
	}
}

// endsSoon waits for the call's end, which must come after a few short pauses
// at most.
func (c *call) endsSoon(want string) {
	c.t.Helper()
	<-c.done
	c.ends(want)
	if c.took > time.Second {
		c.t.Errorf("the call took %s", c.took)
	}
}

// wrote checks all writes so far.
func (e *env) wrote(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.Writes()); diff != "" {
		e.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if diff := cmp.Diff(want, text(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// onNode7 is an available volume on node-7.
func onNode7(name string) testkit.VolumeBuilder { return testkit.Volume(name).OnHost(node7) }

// claimant returns the name and UID in the volume's claimRef.
func (e *env) claimant(pv string) string {
	ref := e.Volume(pv).Spec.ClaimRef
	if ref == nil {
		return ""
	}
	return ref.Name + " " + string(ref.UID)
}

func (e *env) claimedBy(pv, claim string) {
	e.t.Helper()
	if got, want := e.claimant(pv), claim+" "+string(testkit.UID(claim)); got != want {
		e.t.Errorf("volume %s is claimed by %q, want %q", pv, got, want)
	}
}

func metaMicro(second int64) metav1.MicroTime { return metav1.NewMicroTime(time.Unix(second, 0)) }
