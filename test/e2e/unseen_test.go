package e2e_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// Objects that no controller has seen yet, and callers that are no longer
// there.

// S06 (b): a new claim's phase says nothing; what decides is its volumeName
// and bind-completed.
func TestS06_ClaimThatNoControllerHasSeen(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	local, never := f.class(newLocalClass("local")), f.class(newClass("never", "nobody.example/none", waits))
	pv := f.volume(newVolume("pv", local, node))
	thaw := shared.freezeControllers(t)
	f.claim(newClaim("static", local))
	f.claim(newClaim("data", never))
	pod := f.pod(newPod("web", nobody, "static", "data"))
	answer := f.start(pod, node)
	f.eventually("both claims are begun", func() bool {
		return f.getVolume(pv.Name).Spec.ClaimRef != nil && f.selectedNode("data") == node
	})
	thaw()
	provisionByHand(f, node)
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
}

// S06 (a): a claim says what phase it likes; it is bound when its two sides
// say so.
func TestS06_PhaseIsNotBelieved(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", local, node))
	thaw := shared.freezeControllers(t)
	claim := f.claim(newClaim("data", local))
	claim.Status.Phase = v1.ClaimBound // a lie
	_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).UpdateStatus(f.ctx, claim, metav1.UpdateOptions{})
	f.must(err)
	pod := f.pod(newPod("web", nobody, "data"))
	answer := f.start(pod, node)
	f.eventually("claimRef is written", func() bool { return f.getVolume(pv.Name).Spec.ClaimRef != nil })
	if got := f.getPod("web").Spec.NodeName; got != "" {
		t.Errorf("the pod is on node %s, its claim is not bound", got)
	}
	thaw()
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
}

// S42: of the volumes that are not Available yet, only one that is pre-bound
// to the claim may be used.
func TestS42_PreboundVolumeThatIsNotAvailableYet(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	thaw := shared.freezeControllers(t)
	f.volumeNoWait(newVolume("young", local, node))
	f.volumeNoWait(newVolume("mine", local, node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = f.claimRef("data", "") }))
	claim := f.claim(newClaim("data", local))
	pod := f.pod(newPod("web", nobody, "data"))
	answer := f.start(pod, node)
	f.eventually("the uid is filled in", func() bool { return f.getVolume(f.name("mine")).Spec.ClaimRef.UID == claim.UID })
	thaw()
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
	f.free(f.getVolume(f.name("young")))
}

// A Binding must never begin when the caller has gone: the scheduler may have
// sent the pod elsewhere by then.
func TestVolumeComesAfterTheCallerHasGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	whole := f.ctx
	ctx, hangUp := context.WithCancel(whole)
	f.ctx = ctx
	pod, answer := waitingFor(f, node)
	hangUp()
	f.answer(answer)
	f.ctx = whole
	shared.awaitBindLine(f, string(pod.UID), "CallerGone")
	provisionByHand(f, node)
	f.eventually("the claim is bound", func() bool { return f.getClaim("data").Status.Phase == v1.ClaimBound })
	f.postedAtMost(0, pod)
	if got := f.getPod("web").Spec.NodeName; got != "" {
		t.Errorf("the pod is on node %s, and nobody asked for it", got)
	}
	f.binds(pod, node) // the next call finds all done
	f.postedAtMost(1, pod)
}

// postedAtMost checks how many Bindings prebind has sent for the pod.
func (f *fixture) postedAtMost(limit int, pod *v1.Pod) {
	f.t.Helper()
	events, err := shared.cp.Audit(f.ctx, controlplane.AuditFilter{
		User: controlplane.PrebindUser, Resource: "pods", Subresource: "binding", Namespace: pod.Namespace, Name: pod.Name,
	})
	if err != nil {
		return // an existing cluster has no audit log to read
	}
	if len(events) > limit {
		f.t.Errorf("%d Bindings were posted, want at most %d:\n%s", len(events), limit, controlplane.DescribeAudit(events))
	}
}

// A claim made a moment ago, a volume made a moment ago: prebind's caches need
// not have them yet when the call comes.
func TestCallComesRightBehindTheObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", local, node))
	for _, kind := range []string{"static", "dynamic"} {
		young := f.node(kind, map[string]string{v1.LabelHostname: node})
		if kind == "static" {
			f.claim(newClaim(kind, local))
		} else {
			f.claim(newClaim(kind, f.dynamic("d")))
		}
		pod := f.pod(newPod(kind, nobody, kind))
		f.binds(pod, young)
	}
	if got := f.selectedNode("static"); got != "" {
		t.Errorf("selected-node %s was written for the static claim", got)
	}
}
