package volumes_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// patience is volumes.bindTimeout in random runs.
const patience = time.Minute

// world is one random run: an API, two replicas with caches of their own, and
// the calls that they serve.
type world struct {
	*testkit.API
	audit    audit
	replicas [2]*replica
	pvs      *testkit.PVController
	plan     *schedule
	calls    []*randomCall
	quiet    int64       // version of the API when last everybody had come to rest
	made     int         // counts what needs a name or UID of its own
	healed   atomic.Bool // from here on nothing goes wrong
}

// replica is one process.
type replica struct {
	w      *world
	id     int
	client *testkit.Client
	p      *volumes.Prebinder
	caches *volumes.Caches
	ctx    context.Context
	die    context.CancelCauseFunc

	mu    sync.Mutex
	lags  []lag
	count map[string]int // requests by object
}

// lag is a time, in versions of the API, in which a watch was held.
type lag struct {
	resource string
	from, to int64
}

// randomCall is one bind call.
type randomCall struct {
	id      int
	replica *replica
	pod     *v1.Pod
	claims  []string
	node    string
	began   int64 // version of the API
	quiet   int64 // the world's at that time: what came later the caches may lack
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error
}

func (c *randomCall) String() string {
	return fmt.Sprintf("call %d (pod %s, %s, replica %d)", c.id, c.pod.Name, c.node, c.replica.id)
}

func (c *randomCall) uses(claim string) bool {
	return slices.Contains(c.claims, claim)
}

func (c *randomCall) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func newWorld(t *testing.T, plan *schedule) *world {
	w := &world{API: testkit.NewAPI(t), plan: plan}
	w.audit.settled = map[string]string{}
	w.Put(testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"), testkit.Class("mixed").Provisions("csi.example.com"))
	for n := range nodeNames {
		w.putNode(n, n)
	}
	w.Put(plan.objects()...)
	w.pvs = w.NewPVController()
	w.OnWrite(w.audit.applied)
	for id := range w.replicas {
		w.replicas[id] = w.startReplica(id)
	}
	synctest.Wait()
	w.quiet = w.Version()
	return w
}

func (w *world) startReplica(id int) *replica {
	r := &replica{w: w, id: id, client: w.NewClient(), count: map[string]int{}}
	r.client.Sent, r.client.Fault = w.audit.sent, r.fault
	caches, err := volumes.NewCaches(r.client)
	if err != nil {
		panic(err)
	}
	if r.p, err = volumes.New(volumes.Config{Client: r.client, Caches: caches, CompleteClaims: r.direct()}); err != nil {
		panic(err)
	}
	r.caches = caches
	r.ctx, r.die = context.WithCancelCause(context.Background())
	caches.Start(r.ctx)
	return r
}

// direct tells whether the replica completes claims itself.
func (r *replica) direct() bool { return r.w.plan.Direct>>r.id&1 == 1 }

// restart is a crash: the process is gone with all that it knew, and another
// one starts. What it has sent is still done. It takes long enough for the PV
// controller to see all volumes: a claimRef that somebody took away before is
// unknown to the new process.
func (w *world) restart(id int) {
	old := w.replicas[id]
	old.stop(fault.New(fault.ShuttingDown, "crash"))
	w.pvs.SyncVolumes()
	w.replicas[id] = w.startReplica(id)
}

func (r *replica) stop(cause error) {
	r.die(cause)
	r.client.Close()
	r.caches.Wait()
}

// shown is the version from which on the replica may have seen a resource in a
// call that began at the version given.
func (r *replica) shown(resource string, began int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lags {
		if l.resource == resource && l.to >= began {
			return min(l.from, began)
		}
	}
	return began
}

func (r *replica) hold(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lags {
		if l.resource == resource && l.to == math.MaxInt64 {
			return
		}
	}
	r.lags = append(r.lags, lag{resource, r.w.Version(), math.MaxInt64})
	r.client.Hold(resource)
}

func (r *replica) release(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client.Release(resource)
	for n, l := range r.lags {
		if l.resource == resource && l.to == math.MaxInt64 {
			// The call that looks next may still be faster than the handlers.
			r.lags[n].to = r.w.Version()
		}
	}
}

// fault is drawn by object and by how often it was asked for, so that it does
// not depend on the order of parallel requests.
func (r *replica) fault(request testkit.Request) testkit.Fault {
	if r.w.healed.Load() {
		return testkit.Fault{}
	}
	key := request.Resource + "/" + request.Name
	r.mu.Lock()
	n := r.count[key]
	r.count[key]++
	r.mu.Unlock()
	for _, letter := range key {
		n += int(letter)
	}
	return r.w.plan.fault(n + 7*r.id)
}

// call starts a bind call for the pod, unless the replica has one already.
func (w *world) call(pod *v1.Pod, node string, r *replica) *randomCall {
	for _, c := range w.calls {
		if c.replica == r && c.pod.UID == pod.UID && !c.ended() {
			return nil
		}
	}
	c := &randomCall{id: len(w.calls), replica: r, pod: pod, claims: claimsOf(pod), node: node, began: w.Version(), quiet: w.quiet, done: make(chan struct{})}
	limited, stop := context.WithTimeoutCause(r.ctx, patience, fault.New(fault.BindTimeout, "patience is over"))
	c.ctx, c.cancel = context.WithCancelCause(testkit.As(limited, c))
	w.calls = append(w.calls, c)
	go func() {
		defer close(c.done)
		defer stop()
		c.err = c.bind(w)
	}()
	return c
}

// bind is what the VolumeBinding plugin does, and then a Binding.
func (c *randomCall) bind(w *world) error {
	reservation, err := c.replica.p.Reserve(c.ctx, c.pod, c.node)
	if err != nil {
		return err
	}
	defer c.replica.p.Unreserve(reservation)
	if err := c.replica.p.Bind(c.ctx, c.pod, reservation); err != nil {
		return err
	}
	w.audit.succeeded(w, c)
	if now := w.Pod(c.pod.Name); now != nil && now.UID == c.pod.UID && now.Spec.NodeName == "" && c.ctx.Err() == nil {
		w.ChangePod(c.pod.Name, func(p *v1.Pod) { p.Spec.NodeName = c.node })
	}
	return nil
}

func claimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i]
		switch {
		case source.PersistentVolumeClaim != nil:
			names = append(names, source.PersistentVolumeClaim.ClaimName)
		case source.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, source))
		}
	}
	return names
}

// run plays the schedule, heals the world, and sees to it that all comes to
// rest. It returns what was wrong.
func (w *world) run() []string {
	for _, step := range w.plan.Steps {
		w.do(step)
		if step.Settle {
			synctest.Wait()
			w.quiet = w.Version()
		}
	}
	w.heal()
	w.quiet = w.Version()
	w.finish()
	for _, r := range w.replicas {
		synctest.Wait()
		if n := r.p.Reserved(); n != 0 {
			w.audit.wrong("at rest replica %d has %d reservations", r.id, n)
		}
		r.stop(fault.New(fault.ShuttingDown, "end"))
	}
	synctest.Wait()
	w.audit.atRest(w)
	return w.audit.found()
}

// heal ends all lag and faults, restores the nodes, and lets the calls under
// way come to their end.
func (w *world) heal() {
	w.healed.Store(true)
	for _, r := range w.replicas {
		for _, resource := range watched {
			r.release(resource)
		}
	}
	for n := range nodeNames {
		w.putNode(n, n)
	}
	for range int(patience/time.Second) + 10 {
		w.controllers()
		time.Sleep(time.Second)
		synctest.Wait()
	}
	for _, c := range w.calls {
		if !c.ended() {
			w.audit.wrong("%s has not ended", c)
			c.cancel(fault.New(fault.CallerGone, "it hangs"))
		}
	}
}

// controllers lets the PV controller and the provisioner look at everything.
func (w *world) controllers() {
	for _, name := range w.Names("persistentvolumeclaims") {
		w.pvs.SyncClaim(name)
		w.provision(name, true)
	}
	w.pvs.SyncVolumes()
}
