package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/test/balancer"
	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// calls are all bind calls as the scheduler saw them, by pod. The balancer tells
// of each one, so a call that no replica has logged, since it was gone, counts
// as well.
type calls struct {
	mu  sync.Mutex
	all map[types.UID][]call
}

type call struct {
	backend string
	failure string // "" for success
}

func (c *calls) note(e balancer.Exchange) {
	var args extenderv1.ExtenderBindingArgs
	_ = json.Unmarshal(e.Request, &args) // a call without a pod fails the test at its end
	failure, err := result(e.Code, e.Answer)
	if err != nil {
		failure = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[args.PodUID] = append(c.all[args.PodUID], call{e.Backend, failure})
}

func (c *calls) of(pod types.UID) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[pod])
}

// rolling is two replicas behind one address, the real scheduler, and pods that
// come in and wait for their volumes.
type rolling struct {
	*fixture
	a, b       *controlplane.Prebind
	front      *balancer.Balancer
	seen       *calls
	slow, fast string // classes
	pods       int    // that have come
}

const wave = 25 // pods with a claim that takes its time, and as many with one that does not

// newRolling starts everything, and stops the replicas that are only to come.
func newRolling(t *testing.T, toCome ...string) (r *rolling, coming []*controlplane.Prebind) {
	t.Helper()
	f := newFixture(t)
	r = &rolling{fixture: f, seen: &calls{all: map[types.UID][]call{}}, slow: f.name("slow"), fast: f.name("fast")}
	disks, err := provisioner.Start(t.Context(), plane, provisioner.Options{})
	f.must(err)
	t.Cleanup(disks.Stop)
	f.must(plane.Create(t.Context(),
		build.Class(r.slow).Provisioner(disks.Name()).Param(provisioner.Delay, "4s").Obj(),
		build.Class(r.fast).Provisioner(disks.Name()).Obj()))
	for i := range 4 {
		f.node(fmt.Sprint(i))
	}

	var backends []balancer.Backend
	replica := func(name string) *controlplane.Prebind {
		// The balancer looks every 50 ms.
		p := f.prebind(controlplane.PrebindOptions{Name: name, Config: "server: {shutdownDelay: 1s}"})
		backends = append(backends, balancer.Backend{URL: p.URL(), OpsURL: p.OpsURL()})
		return p
	}
	r.a, r.b = replica("replica-a"), replica("replica-b")
	for _, name := range toCome {
		p := replica(name)
		f.must(p.Stop(t.Context()))
		coming = append(coming, p)
	}
	r.front, err = balancer.Start(t.Context(), balancer.Options{Answered: r.seen.note}, backends...)
	f.must(err)
	t.Cleanup(r.front.Stop)
	f.must(plane.StartScheduler(t.Context(), controlplane.SchedulerOptions{
		Mode: controlplane.ModeBind, URL: r.front.URL(), PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 1,
	}))
	t.Cleanup(func() { f.must(plane.StopScheduler(context.Background())) })
	return r, coming
}

// arrive lets n waves of pods come in.
func (r *rolling) arrive(n int) {
	for range n {
		r.scheduled(r.pods, wave, r.slow)
		r.scheduled(r.pods+wave, wave, r.fast)
		r.pods += 2 * wave
	}
}

// waitIn returns when pods wait in the replica.
func (r *rolling) waitIn(replica *controlplane.Prebind) {
	r.t.Helper()
	r.eventually("calls wait in "+replica.Name(), func() (bool, string) {
		n := r.metrics(replica)["prebind_bind_calls_in_flight"]
		return n >= wave/2, fmt.Sprint(n)
	})
}

// used returns when the balancer uses the replica.
func (r *rolling) used(replica *controlplane.Prebind) {
	r.t.Helper()
	r.eventually("the balancer uses "+replica.Name(), func() (bool, string) {
		return slices.Contains(r.front.Ready(), replica.URL()), fmt.Sprint(r.front.Ready())
	})
}

// TestRollingRestart: two replicas behind one address are restarted one after
// the other while pods come in and wait for their volumes. Each pod is bound
// once, with its claims, and each restart costs it one attempt at most.
//
// What counts as an attempt is a bind call that the scheduler saw fail. A pod
// that waits in a replica when that is stopped fails once; it may then wait in
// the other one, and fail once more if that is stopped too.
func TestRollingRestart(t *testing.T) {
	r, _ := newRolling(t)
	for _, replica := range []*controlplane.Prebind{r.a, r.b} {
		r.arrive(3)
		r.waitIn(replica)
		restarted := make(chan error, 1)
		go func() { restarted <- restart(t.Context(), replica) }()
		r.arrive(3) // while it stops and starts
		r.must(<-restarted)
		r.used(replica)
	}
	r.checkRolling(r.seen, r.allBound(r.pods), 2)
}

// TestRollingUpdate: as the chart's Deployment does it, all new replicas are
// there before the old ones are stopped. A pod then fails once at most.
func TestRollingUpdate(t *testing.T) {
	r, coming := newRolling(t, "replica-c", "replica-d")
	r.arrive(3)
	for _, replica := range coming {
		r.must(replica.Start(t.Context()))
		r.used(replica)
	}
	r.arrive(3)
	r.waitIn(r.a)
	r.waitIn(r.b)
	var stopping errgroup.Group
	for _, replica := range []*controlplane.Prebind{r.a, r.b} {
		stopping.Go(func() error { return stop(t.Context(), replica) })
	}
	r.arrive(3) // while they stop
	r.must(stopping.Wait())
	r.checkRolling(r.seen, r.allBound(r.pods), 1)
}

// restart does what a rolling update does with one replica.
func restart(ctx context.Context, replica *controlplane.Prebind) error {
	if err := stop(ctx, replica); err != nil {
		return err
	}
	return replica.Start(ctx)
}

func stop(ctx context.Context, replica *controlplane.Prebind) error {
	if err := replica.Stop(ctx); err != nil {
		return err
	}
	if err := replica.Err(); err != nil {
		return fmt.Errorf("%s did not stop in order: %w", replica.Name(), err)
	}
	return nil
}

// scheduled makes n pods with one claim each for the real scheduler.
func (f *fixture) scheduled(from, n int, class string) {
	f.t.Helper()
	f.each(n, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("pod-%d", from+i)
		claim := build.Claim(f.ns, name).Class(class).Obj()
		if _, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod := build.Pod(f.ns, name).Claim(name).Scheduler(plane.SchedulerName()).NodeSelector("test", f.ns).Obj()
		_, err := f.client.CoreV1().Pods(f.ns).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// allBound waits until all n pods are on a node and returns them.
func (f *fixture) allBound(n int) []corev1.Pod {
	f.t.Helper()
	var list *corev1.PodList
	f.eventually(fmt.Sprintf("%d pods are bound", n), func() (bool, string) {
		var err error
		list, err = f.client.CoreV1().Pods(f.ns).List(f.t.Context(), metav1.ListOptions{})
		f.must(err)
		bound, open := 0, ""
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				bound++
			} else {
				open = list.Items[i].Name
			}
		}
		return bound == n && len(list.Items) == n, fmt.Sprintf("%d of %d; one that is not: %s", bound, len(list.Items), open)
	})
	return list.Items
}

// checkRolling checks, from the API, that each pod was bound once and has its
// claim, and from the calls what it took: no pod may have two failures with one
// replica, more than most in all, or any other than ShuttingDown.
func (f *fixture) checkRolling(seen *calls, pods []corev1.Pod, most int) {
	f.t.Helper()
	f.checkClaims(pods)
	bindings := map[string]int{}
	events, err := plane.Audit(f.t.Context(), controlplane.AuditFilter{Verbs: []string{"create"}, Resource: "pods", Subresource: "binding", Namespace: f.ns, Code: 201})
	f.must(err)
	for i := range events {
		bindings[events[i].ObjectRef.Name]++
	}
	failed := map[int]int{} // pods by their number of failed calls
	for i := range pods {
		pod := &pods[i]
		if bindings[pod.Name] != 1 {
			f.t.Errorf("pod %s: %d Bindings were accepted, want one", pod.Name, bindings[pod.Name])
		}
		failures, byBackend := 0, map[string]int{}
		all := seen.of(pod.UID)
		for _, c := range all {
			if c.failure == "" {
				continue
			}
			failures++
			byBackend[c.backend]++
			if !strings.HasPrefix(c.failure, "ShuttingDown: ") || byBackend[c.backend] > 1 {
				f.t.Errorf("pod %s: more than one failure with a replica, or another than ShuttingDown: %v", pod.Name, all)
			}
		}
		if len(all) != failures+1 {
			f.t.Errorf("pod %s: %d calls of which %d failed, want one success: %v", pod.Name, len(all), failures, all)
		}
		if failures > most {
			f.t.Errorf("pod %s: %d calls failed, want at most %d: %v", pod.Name, failures, most, all)
		}
		failed[failures]++
	}
	f.t.Logf("measured: of %d pods, by the number of attempts that it cost: %v", len(pods), failed)
	if failed[0] == len(pods) {
		f.t.Error("no pod was waiting when a replica was stopped: nothing was tested")
	}
}

// checkClaims checks that each pod's claim is fully bound to a volume of its
// own on the pod's node.
func (f *fixture) checkClaims(pods []corev1.Pod) {
	f.t.Helper()
	claims, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).List(f.t.Context(), metav1.ListOptions{})
	f.must(err)
	volumes, err := f.client.CoreV1().PersistentVolumes().List(f.t.Context(), metav1.ListOptions{})
	f.must(err)
	byClaim := map[types.UID][]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		if ref := volumes.Items[i].Spec.ClaimRef; ref != nil {
			byClaim[ref.UID] = append(byClaim[ref.UID], &volumes.Items[i])
		}
	}
	nodes := map[string]string{} // of pods
	for i := range pods {
		nodes[pods[i].Name] = pods[i].Spec.NodeName
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		have := byClaim[claim.UID]
		switch {
		case claim.Annotations["pv.kubernetes.io/bind-completed"] == "" || len(have) != 1 || have[0].Name != claim.Spec.VolumeName:
			f.t.Errorf("claim %s names volume %q, completed %q, and %d volumes name it", claim.Name, claim.Spec.VolumeName, claim.Annotations["pv.kubernetes.io/bind-completed"], len(have))
		case !strings.Contains(have[0].Spec.NodeAffinity.String(), nodes[claim.Name]):
			f.t.Errorf("pod %s is on node %s, its volume %s is not: %v", claim.Name, nodes[claim.Name], have[0].Name, have[0].Spec.NodeAffinity)
		}
	}
}
