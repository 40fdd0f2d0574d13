package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

const nominates = "volumes: {nominateWhileWaiting: true}"

// nominating starts a prebind that nominates the nodes of waiting pods.
func (f *fixture) nominating(opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	opts.Name, opts.Config = f.name("nominating"), nominates
	return shared.startPrebind(f.t, opts)
}

// held makes pod web with a claim whose provisioner waits for Release.
func (f *fixture) held() *v1.Pod {
	f.t.Helper()
	f.claim(newClaim("data", f.dynamic("held", params(provisioner.Hold, "true"))))
	return f.pod(newPod("web", nobody, "data"))
}

func (f *fixture) nomination(pod string) string {
	f.t.Helper()
	return f.getPod(pod).Status.NominatedNodeName
}

func (f *fixture) awaitNomination(pod, node string) {
	f.t.Helper()
	f.eventually("pod "+pod+" is nominated to "+node, func() bool { return f.nomination(pod) == node })
}

func TestNominationUntilThePodIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.nominating(controlplane.PrebindOptions{})
	node := f.node("a", nil)
	pod := f.held()
	answer := f.startAt(p, pod, node)
	f.awaitNomination("web", node)
	shared.disks.Release(f.ns, "data")
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
	if got := f.nomination("web"); got != "" {
		t.Errorf("the bound pod is nominated to %s", got)
	}
}

// When the scheduler has its answer the nomination is gone.
func TestNominationIsGoneAfterAWaitThatFailed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		opts controlplane.PrebindOptions
		end  func(f *fixture, node string)
		code string
	}{
		"time is over":        {controlplane.PrebindOptions{BindTimeout: 3 * time.Second}, func(*fixture, string) {}, "BindTimeout"},
		"the node is deleted": {controlplane.PrebindOptions{}, func(f *fixture, node string) { f.removeNode(node) }, "NodeNotFound"},
		"the claim is deleted": {controlplane.PrebindOptions{}, func(f *fixture, _ string) {
			f.must(f.client.CoreV1().PersistentVolumeClaims(f.ns).Delete(f.ctx, "data", metav1.DeleteOptions{}))
		}, "Claim"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := f.nominating(tc.opts)
			node := f.node("a", nil)
			answer := f.startAt(p, f.held(), node)
			f.awaitNomination("web", node)
			tc.end(f, node)
			if text := f.answer(answer); !strings.HasPrefix(text, tc.code) {
				t.Fatalf("answer %q, want %s", text, tc.code)
			}
			if got := f.nomination("web"); got != "" {
				t.Errorf("the pod is still nominated to %s", got)
			}
		})
	}
}

func TestNominationIsGoneAfterTheCaller(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.nominating(controlplane.PrebindOptions{})
	node := f.node("a", nil)
	pod := f.held()
	whole := f.ctx
	ctx, hangUp := context.WithCancel(whole)
	f.ctx = ctx
	answer := f.startAt(p, pod, node)
	f.awaitNomination("web", node)
	hangUp()
	f.ctx = whole
	f.answer(answer)
	f.awaitNomination("web", "")

	answer = f.startAt(p, pod, node)
	f.awaitNomination("web", node)
	f.must(p.Stop(f.ctx)) // in order
	f.checkRefused(f.answer(answer), "ShuttingDown")
	if got := f.nomination("web"); got != "" {
		t.Errorf("after a shutdown the pod is nominated to %s", got)
	}
	f.must(p.Start(f.ctx))
}

func TestNominationOfAStaticClaimThatTakesLong(t *testing.T) {
	f := newFixture(t)
	p := f.nominating(controlplane.PrebindOptions{})
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	thaw := shared.freezeControllers(t)
	began := time.Now()
	answer := f.startAt(p, pod, node)
	f.awaitNomination("web", node)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the pod was nominated after %s", took)
	}
	thaw()
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
}

// What a preemption has written stays.
func TestNominationOfSomebodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.nominating(controlplane.PrebindOptions{BindTimeout: 4 * time.Second})
	node, other := f.node("a", nil), f.node("b", nil)
	pod := f.held()
	pod.Status.NominatedNodeName = other
	pod, err := f.client.CoreV1().Pods(f.ns).UpdateStatus(f.ctx, pod, metav1.UpdateOptions{})
	f.must(err)
	answer := f.startAt(p, pod, node)
	f.checkRefused(f.answer(answer), "BindTimeout")
	if now := f.getPod("web"); now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("the pod was written: nominated to %q, want %q", now.Status.NominatedNodeName, other)
	}
}

// A right that is missing costs the nomination, not the pod.
func TestNominationWithoutItsRight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.without([]string{"patch"}, "pods/status", controlplane.PrebindOptions{Config: nominates})
	node := f.node("a", nil)
	pod := f.held()
	answer := f.startAt(p, pod, node)
	f.eventually("the refusal is logged", func() bool { return strings.Contains(p.Tail(50), "could not be nominated") })
	shared.disks.Release(f.ns, "data")
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
}

// With the scheduler: it heeds the nomination as its own, and clears what a prebind
// that was killed has left.
func TestNominationAndTheScheduler(t *testing.T) {
	f := newScheduled(t, controlplane.ModeBind, 2)
	p := f.nominating(controlplane.PrebindOptions{})
	f.must(shared.cp.StartScheduler(f.ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: p.URL()}))
	f.cleanup(shared.cp.StopScheduler)
	f.claim(newClaim("data", f.dynamic("held", params(provisioner.Hold, "true"))))
	f.pod(newPod("web", "", "data"))
	f.eventually("the pod is nominated", func() bool { return f.nomination("web") != "" })
	if node, selected := f.nomination("web"), f.selectedNode("data"); selected != "" && node != selected {
		t.Errorf("nominated to %s, and the claim is provisioned for %s", node, selected)
	}
	f.must(p.Kill())
	f.awaitNomination("web", "")
	f.must(p.Start(f.ctx))
	f.eventually("the pod is nominated again", func() bool { return f.nomination("web") != "" })
	shared.disks.Release(f.ns, "data")
	f.bound("web")
	if got := f.nomination("web"); got != "" {
		t.Errorf("the bound pod is nominated to %s", got)
	}
}
