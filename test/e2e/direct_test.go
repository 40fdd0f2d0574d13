package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// direct starts a prebind that completes static bindings itself. Its audit user
// is its own, so that its writes can be counted.
func (f *fixture) direct() *controlplane.Prebind {
	f.t.Helper()
	role, err := f.client.RbacV1().ClusterRoles().Get(f.ctx, "prebind", metav1.GetOptions{})
	f.must(err)
	return f.withRules(role.Rules, controlplane.PrebindOptions{Config: "volumes: {staticCompletion: Direct}"})
}

func (f *fixture) bindAt(p *controlplane.Prebind, pod *v1.Pod, node string) {
	f.t.Helper()
	text, err := postBind(f.ctx, p.URL(), bindArgs(pod, node))
	f.must(err)
	if text != "" {
		f.t.Fatalf("binding pod %s to %s: %s", pod.Name, node, text)
	}
	f.checkBound(pod, node)
}

// settled waits until the PV controller has nothing left to do for the claims.
func (f *fixture) settled(claims ...string) {
	f.t.Helper()
	for _, name := range claims {
		f.eventually("claim "+name+" and its volume are Bound", func() bool {
			claim := f.getClaim(name)
			if claim.Status.Phase == v1.ClaimLost {
				f.t.Fatalf("claim %s (volume %q) is Lost", name, claim.Spec.VolumeName)
			}
			return claim.Status.Phase == v1.ClaimBound && len(claim.Status.Capacity) > 0 && f.getVolume(claim.Spec.VolumeName).Status.Phase == v1.VolumeBound
		})
	}
}

// writesOf lists what the prebind of direct wrote, as "verb resource".
func (f *fixture) writesOf() map[string]int {
	f.t.Helper()
	events, err := shared.cp.Audit(f.ctx, controlplane.AuditFilter{User: "system:serviceaccount:" + f.ns + ":prebind", Verbs: controlplane.Writes()})
	f.must(err)
	counts := map[string]int{}
	for i := range events {
		ref := events[i].ObjectRef
		counts[strings.TrimSuffix(events[i].Verb+" "+ref.Resource+"/"+ref.Subresource, "/")]++
	}
	return counts
}

// The PV controller stands still, and the pod is bound; when it goes on it finds
// nothing to mend, and makes claim and volume Bound.
func TestDirectDoesNotWaitForThePVController(t *testing.T) {
	f := newFixture(t)
	p := f.direct()
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	claims := []string{"data", "log"}
	for _, name := range claims {
		f.volume(newVolume(name, class, node))
		f.claim(newClaim(name, class))
	}
	pod := f.pod(newPod("web", nobody, claims...))
	thaw := shared.freezeControllers(t)
	f.bindAt(p, pod, node)
	thaw()
	f.settled(claims...)
	want := map[string]int{
		"patch persistentvolumes": 2, "patch persistentvolumes/status": 2, "patch persistentvolumeclaims": 2, "create pods/binding": 1,
	}
	if diff := cmp.Diff(want, f.writesOf()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestDirectWithAProvisionedClaim(t *testing.T) {
	f := newFixture(t)
	p := f.direct()
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("data", class, node))
	f.claim(newClaim("data", class))
	f.claim(newClaim("scratch", f.dynamic("d")))
	pod := f.pod(newPod("web", nobody, "data", "scratch"))
	f.bindAt(p, pod, node)
	f.settled("data", "scratch")
}

// A volume that is pre-bound is the PV controller's to finish.
func TestDirectLeavesAPreBoundVolumeToThePVController(t *testing.T) {
	f := newFixture(t)
	p := f.direct()
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("data", class, node, func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: f.ns, Name: "data"}
	}))
	f.claim(newClaim("data", class))
	f.bindAt(p, f.pod(newPod("web", nobody, "data")), node)
	f.settled("data")
	writes := f.writesOf()
	if writes["patch persistentvolumeclaims"] != 0 || writes["patch persistentvolumes/status"] != 0 {
		t.Errorf("writes: %v, want only claimRef and Binding", writes)
	}
}

// Volumes are deleted after their claims were completed and before the PV
// controller has looked. They are in use, so they stay, and no claim is Lost.
func TestDirectVolumesOutliveTheirDeletion(t *testing.T) {
	f := newFixture(t)
	p := f.direct()
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	var claims []string
	var pods []*v1.Pod
	for i := range 10 {
		name := fmt.Sprintf("data%d", i)
		claims = append(claims, name)
		f.volume(newVolume(name, class, node))
		f.claim(newClaim(name, class))
		pods = append(pods, f.pod(newPod(fmt.Sprintf("web%d", i), nobody, name)))
	}
	thaw := shared.freezeControllers(t)
	for i, pod := range pods {
		f.bindAt(p, pod, node)
		f.must(f.client.CoreV1().PersistentVolumes().Delete(f.ctx, f.getClaim(claims[i]).Spec.VolumeName, metav1.DeleteOptions{}))
	}
	thaw()
	f.settled(claims...)
	for i, pod := range pods {
		f.checkBound(pod, node)
		if f.getVolume(f.getClaim(claims[i]).Spec.VolumeName).DeletionTimestamp == nil {
			t.Errorf("the volume of claim %s was not deleted: this test shows nothing", claims[i])
		}
	}
}

// A right that is missing costs speed, not correctness.
func TestDirectWithoutItsRight(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("data", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	weak := f.without([]string{"patch"}, "persistentvolumes/status", controlplane.PrebindOptions{Config: "volumes: {staticCompletion: Direct}"})
	f.bindAt(weak, pod, node)
	f.settled("data")
}
