package e2e_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/test/build"
)

// claimUID returns the UID of a claim, or "" if there is none.
func (f *fixture) claimUID(name string) types.UID {
	f.t.Helper()
	claim, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Get(f.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	f.must(err)
	return claim.UID
}

// bindsInTheEnd asks again, as the scheduler does, while the answer is one of
// the codes.
func (f *fixture) bindsInTheEnd(pod *v1.Pod, node string, codes ...string) {
	f.t.Helper()
	f.eventually("pod "+pod.Name+" is bound", func() bool {
		text := f.bind(pod, node)
		if text != "" {
			f.endedWith(text, codes...)
		}
		return text == ""
	})
	f.checkBound(pod, node)
}

func TestS37_ClaimOfAnEphemeralVolumeIsNotThereYet(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	thaw := shared.freezeControllers(t) // the ephemeral controller is one of them
	pod := f.pod(withEphemeral(newPod("web", nobody), "scratch", class))
	f.refuses(pod, node, "ClaimNotFound", "claim "+f.ns+"/web-scratch", "waiting for ephemeral volume controller")
	f.free(pv)
	thaw()
	f.bindsInTheEnd(pod, node, "ClaimNotFound")
}

func TestS37_ClaimOfAnEphemeralVolumeBelongsToAnother(t *testing.T) {
	owners := map[string]func(f *fixture, pod *v1.Pod) []metav1.OwnerReference{
		"it has no owner": func(*fixture, *v1.Pod) []metav1.OwnerReference { return nil },
		"an older pod of the same name controls it": func(_ *fixture, pod *v1.Pod) []metav1.OwnerReference {
			old := pod.DeepCopy()
			old.UID = "00000000-0000-0000-0000-000000000001"
			return build.Claim("", "").OwnedBy(old).Obj().OwnerReferences
		},
		"the pod owns it but is not its controller": func(_ *fixture, pod *v1.Pod) []metav1.OwnerReference {
			owner := build.Claim("", "").OwnedBy(pod).Obj().OwnerReferences
			owner[0].Controller = new(false)
			return owner
		},
	}
	for name, ownersOf := range owners {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			pv := f.volume(newVolume("a", class, node))
			// The garbage collector would delete what an older pod left.
			thaw := shared.freezeControllers(t)
			defer thaw()
			pod := f.pod(withEphemeral(newPod("web", nobody), "scratch", class))
			f.claim(newClaim("web-scratch", class, func(c *v1.PersistentVolumeClaim) { c.OwnerReferences = ownersOf(f, pod) }))
			f.refuses(pod, node, "ClaimNotOwned", "claim "+f.ns+"/web-scratch", "pod is not owner")
			f.free(pv)
		})
	}
}

// Pod a-b with volume c and pod a with volume b-c both need claim a-b-c.
func TestS37_TwoPodsNeedAClaimOfTheSameName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("one", class, node))
	spare := f.volume(newVolume("spare", class, node, capacity("9Gi")))
	first := f.pod(withEphemeral(newPod("a-b", nobody), "c", class))
	f.awaitEphemeral(first)
	second := f.pod(withEphemeral(newPod("a", nobody), "b-c", class))
	f.refuses(second, node, "ClaimNotOwned", "claim "+f.ns+"/a-b-c", "pod is not owner")
	f.mustBind(first, node)
	f.refuses(second, node, "ClaimNotOwned", "claim "+f.ns+"/a-b-c")
	f.free(spare)
}

// The claim of the deleted pod is still there when the new pod comes.
func TestS37_PodWithAnEphemeralVolumeIsMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.dynamic("dynamic")
	old := f.pod(withEphemeral(newPod("web", nobody), "scratch", class))
	f.awaitEphemeral(old)
	f.binds(old, node)
	before := f.claimUID("web-scratch")
	f.removePod("web")
	young := f.pod(withEphemeral(newPod("web", nobody), "scratch", class))
	f.bindsInTheEnd(young, node, "ClaimNotOwned", "ClaimTerminating", "ClaimNotFound")
	if now := f.claimUID("web-scratch"); now == before {
		t.Errorf("the new pod was given the old pod's claim (uid %s)", now)
	}
}

func TestEphemeralVolumesOfOnePodOnStaticAndDynamicClasses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	f.volume(newVolume("one", local, node))
	pod := withEphemeral(newPod("web", nobody), "static", local)
	pod = f.pod(withEphemeral(pod, "dynamic", f.dynamic("dynamic")))
	f.awaitEphemeral(pod)
	f.binds(pod, node)
	if got := f.getClaim("web-dynamic").Spec.VolumeName; !strings.HasPrefix(got, "pvc-") {
		t.Errorf("the dynamic claim is bound to %s", got)
	}
	f.boundTo("web-static", "one")
}
