package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/provisioner"
)

// Races with writers whom nothing holds back: what happens in which order is
// chance, what must hold is not.

// keepsEditing calls edit with 0, 1, 2, ... as fast as it can, until stop is
// called, but not for ever; stop returns how many edits there were.
func (f *fixture) keepsEditing(edit func(i int)) (stop func() int) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil && n < 60 {
			edit(n)
			n++
		}
		done <- n
	}()
	return func() int { cancel(); return <-done }
}

// S03: each write of ours meets a claim or volume that has just been changed.
func TestS03_LabellersEditDuringTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", local, node))
	f.claim(newClaim("static", local))
	f.claim(newClaim("dynamic", f.dynamic("slow", params(provisioner.Delay, "200ms"))))
	pod := f.pod(newPod("web", nobody, "static", "dynamic"))
	edits := f.client.CoreV1()
	stopVolume := f.keepsEditing(func(i int) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"edit":"%d","edit-%d":"x"}}}`, i, i)
		if _, err := edits.PersistentVolumes().Patch(f.ctx, pv.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("edit %d: %v", i, err)
		}
	})
	stopClaim := f.keepsEditing(func(i int) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"edit":"%d","edit-%d":"x"}}}`, i, i)
		if _, err := edits.PersistentVolumeClaims(f.ns).Patch(f.ctx, "dynamic", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("edit %d: %v", i, err)
		}
	})
	// The editors are so fast that a call may give up; what it must not do is
	// to undo an edit.
	f.bindsInTheEnd(pod, node, "Conflict", "APIError")
	onVolume, onClaim := stopVolume(), stopClaim()
	labels, annotations := f.getVolume(pv.Name).Labels, f.getClaim("dynamic").Annotations
	for i := range onVolume {
		if labels[fmt.Sprintf("edit-%d", i)] != "x" {
			t.Fatalf("label edit-%d of %d on the volume was lost", i, onVolume)
		}
	}
	for i := range onClaim {
		if annotations[fmt.Sprintf("edit-%d", i)] != "x" {
			t.Fatalf("annotation edit-%d of %d on the claim was lost", i, onClaim)
		}
	}
}

// S01: an administrator claims the volume for another claim while the call
// chooses it. Whoever is first keeps it.
func TestS01_VolumeIsClaimedByHandDuringTheCall(t *testing.T) {
	t.Parallel()
	for round := range 6 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			pv := f.volume(newVolume("pv", class, node))
			if round%2 == 1 {
				f.volume(newVolume("second", class, node, capacity("5Gi")))
			}
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			answer := f.start(pod, node)
			theirs := f.getVolume(pv.Name)
			won := false
			if theirs.Spec.ClaimRef == nil {
				theirs.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "theirs"}
				_, err := f.client.CoreV1().PersistentVolumes().Update(f.ctx, theirs, metav1.UpdateOptions{})
				if err != nil && !apierrors.IsConflict(err) {
					t.Fatal(err)
				}
				won = err == nil
			}
			text := f.answer(answer)
			ref := f.getVolume(pv.Name).Spec.ClaimRef
			if won != (ref.Name == "theirs") {
				t.Fatalf("the administrator's write was accepted: %v; now volume %s is claimed by %s/%s", won, pv.Name, ref.Namespace, ref.Name)
			}
			switch {
			case text == "":
				f.checkBound(pod, node)
			case won && round%2 == 0:
				f.checkRefused(text, "NoVolume", "claim "+f.ns+"/data")
				f.untouched("data")
			default:
				t.Errorf("a volume was free, and the answer is %q", text)
			}
		})
	}
}

// The chosen volume is deleted, or goes, while the call chooses it.
func TestVolumeIsDeletedDuringTheCall(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			pv := f.volume(newVolume("pv", class, node))
			f.volume(newVolume("second", class, node, capacity("5Gi")))
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			answer := f.start(pod, node)
			f.removeVolume(pv.Name)
			text := f.answer(answer)
			if text != "" { // it had the volume, and lost it
				f.endedWith(text, "ClaimRefReset", "VolumeNotFound", "ClaimLost")
				if got := f.getPod("web").Spec.NodeName; got != "" {
					t.Errorf("the pod is on node %s", got)
				}
				return
			}
			// Bound to either: if to the one that went, then before it went.
			now := f.getPod("web")
			claim := f.getClaim("data")
			if now.Spec.NodeName != node || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
				t.Errorf("pod on %q, claim bound to %q: %v", now.Spec.NodeName, claim.Spec.VolumeName, claim.Annotations)
			}
		})
	}
}

// Two calls for one pod to two nodes: the second waits for the first, and
// finds what that has done.
func TestOnePodIsSentToTwoNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("a", class, a))
	f.volume(newVolume("b", class, b))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	first, second := f.start(pod, a), f.start(pod, b)
	one, two := f.answer(first), f.answer(second)
	if (one == "") == (two == "") {
		t.Fatalf("answers %q and %q, want one success", one, two)
	}
	node, lost := a, two
	if one != "" {
		node, lost = b, one
	}
	f.checkBound(pod, node)
	f.endedWith(lost, "PodAssigned", "NodeConflict") // the pod, or its claim, is seen first
	if free := f.getVolume(f.name(strings.TrimPrefix(map[string]string{a: b, b: a}[node], f.ns+"-"))); free.Spec.ClaimRef != nil {
		t.Errorf("volume %s was claimed for the node that lost", free.Name)
	}
}

// The same call many times at once is one cycle.
func TestOneCallSentManyTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	f.claim(newClaim("data", f.dynamic("d", params(provisioner.Delay, "200ms"))))
	pod := f.pod(newPod("web", nobody, "data"))
	var answers []<-chan string
	for range 20 {
		answers = append(answers, f.start(pod, node))
	}
	for _, answer := range answers {
		if text := f.answer(answer); text != "" {
			t.Error(text)
		}
	}
	f.checkBound(pod, node)
	if n := len(shared.disks.Attempts(f.ns, "data")); n != 1 {
		t.Errorf("%d attempts to provision", n)
	}
}

// S10: somebody else binds the pod while the call is on its way; the answer is
// about where the pod is.
func TestS10_TwoBindersOfOnePod(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"to the same node": true, "to another node": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			target := node
			if !same {
				target = f.node("b", nil)
			}
			pod := f.pod(newPod("web", nobody))
			answer := f.start(pod, node)
			err := f.client.CoreV1().Pods(f.ns).Bind(f.ctx, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: target},
			}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			text := f.answer(answer)
			f.postedAtMost(1, pod) // no storm of retries
			switch where := f.getPod("web").Spec.NodeName; {
			case where == node && text != "":
				t.Errorf("the pod is on node %s, and the answer is %q", where, text)
			case where != node:
				f.checkRefused(text, "PodAssigned", target)
			}
		})
	}
}
