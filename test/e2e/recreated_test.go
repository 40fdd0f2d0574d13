package e2e_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Objects that are deleted, or made anew under the same name, between two
// calls: nothing of the old one may count, however fresh the watch is. What
// happens within a call is in disturbed_test.go.

func TestClaimIsMadeAnewAfterItWasBound(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"static", "provisioned"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.dynamic("d")
			if kind == "static" {
				class = f.class(newLocalClass("local"))
				f.volume(newVolume("one", class, node))
			}
			f.claim(newClaim("data", class))
			f.mustBind(f.pod(newPod("first", nobody, "data")), node)
			f.removePod("first") // it uses the claim
			f.removeClaim("data")
			young := f.claim(newClaim("data", class))
			pod := f.pod(newPod("second", nobody, "data"))
			if kind == "static" { // the only volume is the old claim's
				f.endedWith(f.bind(pod, node), "NoVolume", "ClaimReplaced")
				f.untouched("data")
				f.volume(newVolume("two", class, node))
			}
			f.bindsInTheEnd(pod, node, "ClaimReplaced")
			if kind == "static" {
				f.boundTo("data", "two")
			}
			if now := f.getClaim("data"); now.UID != young.UID {
				t.Errorf("claim data has uid %s, want %s", now.UID, young.UID)
			}
		})
	}
}

func TestVolumeIsMadeAnewBeforeTheCall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		young func(f *fixture, class, node string) *v1.PersistentVolume
		code  string // "" for success
	}{
		"for the same node": {func(_ *fixture, class, node string) *v1.PersistentVolume { return newVolume("pv", class, node) }, ""},
		"for another node":  {func(_ *fixture, class, _ string) *v1.PersistentVolume { return newVolume("pv", class, "elsewhere") }, "NoVolume"},
		"of another class":  {func(_ *fixture, _, node string) *v1.PersistentVolume { return newVolume("pv", "other", node) }, "NoVolume"},
		"smaller": {func(_ *fixture, class, node string) *v1.PersistentVolume {
			return newVolume("pv", class, node, capacity("1Mi"))
		}, "NoVolume"},
		"and claimed by somebody": {func(_ *fixture, class, node string) *v1.PersistentVolume {
			return newVolume("pv", class, node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "x"} })
		}, "NoVolume"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("pv", class, node))
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			f.removeVolume(f.name("pv"))
			f.volume(tc.young(f, class, node))
			if tc.code == "" {
				f.binds(pod, node)
			} else {
				f.refused(pod, node, tc.code, "claim "+f.ns+"/data")
				f.untouched("data")
			}
		})
	}
}

// The volume of a bound claim is lost: the claim is, too, for good.
func TestVolumeOfABoundClaimIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	f.mustBind(f.pod(newPod("first", nobody, "data")), node)
	f.removeVolume(f.name("pv"))
	spare := f.volume(newVolume("spare", class, node))
	pod := f.pod(newPod("second", nobody, "data"))
	f.eventually("the claim is lost", func() bool { return f.getClaim("data").Status.Phase == v1.ClaimLost })
	f.refuses(pod, node, "ClaimLost", "claim "+f.ns+"/data", f.name("pv"))

	// A volume of the same name that is not the claim's does not bring it back.
	f.volume(newVolume("pv", class, node))
	f.refused(pod, node, "ClaimLost", "claim "+f.ns+"/data")
	f.free(spare)
}

// A bound claim whose volume says it is somebody else's.
func TestVolumeOfABoundClaimIsGivenAway(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	f.mustBind(f.pod(newPod("first", nobody, "data")), node)
	second := f.pod(newPod("second", nobody, "data"))
	thaw := shared.freezeControllers(t) // they would call the claim lost
	defer thaw()
	f.patchVolume(f.name("pv"), object{"spec": object{"claimRef": object{"namespace": "default", "name": "thief", "uid": "7"}}})
	f.eventually("prebind has seen it", func() bool {
		text := f.bind(second, node)
		if text == "" {
			t.Skip("the call came before the watch had shown the change")
		}
		code := "VolumeMismatch"
		if strings.HasPrefix(text, "ClaimRefReset: ") { // the watch showed it during the call
			code = "ClaimRefReset"
		}
		f.checkRefused(text, code, "claim "+f.ns+"/data", f.name("pv"), "default/thief")
		return true
	})
	if ref := f.getVolume(f.name("pv")).Spec.ClaimRef; ref.Name != "thief" {
		t.Errorf("volume pv is claimed by %s", ref.Name)
	}
}

func TestNodeIsMadeAnewBeforeTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.removeNode(node)
	f.nodeSeenGone(node)
	f.refuses(pod, node, "NodeNotFound", node)
	f.node("a", map[string]string{v1.LabelHostname: "elsewhere"})
	f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/data")
	f.free(pv)
	f.patchNode(node, labelled(v1.LabelHostname, node))
	f.bindsInTheEnd(pod, node, "NoVolume") // once the watch shows the label
}

// The bound claim's node was replaced by another machine under the same name.
func TestNodeIsMadeAnewAfterItsVolumeWasBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	f.mustBind(f.pod(newPod("first", nobody, "data")), node)
	f.removeNode(node)
	second := f.pod(newPod("second", nobody, "data"))
	f.nodeSeenGone(node)
	f.refuses(second, node, "NodeNotFound", node)
	f.node("a", map[string]string{v1.LabelHostname: "new-machine"})
	f.refuses(second, node, "NodeConflict", "claim "+f.ns+"/data", f.name("pv"), node)
}

func TestClassIsMadeAnewBeforeTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refuses(pod, node, "NoVolume", "class provisions none")
	f.removeClass(class)
	f.refuses(pod, node, "ClaimUnbound", class, "not found")
	f.class(newClass("local", "nobody.example/none", immediate))
	f.refuses(pod, node, "ClaimUnbound", class, "binds immediately")
	f.removeClass(class)
	f.class(newClass("local", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer))
	f.bindsInTheEnd(pod, node, "ClaimUnbound")
}

func TestS11_PodOfThisNameRunsElsewhereByNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", class, a))
	f.claim(newClaim("data", class))
	old := f.pod(newPod("web", nobody, "data"))
	f.removePod("web")
	f.podsSeen()
	young := newPod("web", nobody)
	young.Spec.NodeName = a
	young = f.pod(young)
	for _, node := range []string{a, b} { // the node it is on is no success for another UID
		before := f.snapshot()
		f.checkRefused(f.bind(old, node), "PodReplaced", string(old.UID), string(young.UID))
		before.unwritten()
	}
	f.free(pv)
}

func TestS11_VolumesBoundForTheOldPodAreKeptForTheNew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	first := f.pod(newPod("web", nobody, "data"))
	f.mustBind(first, node)
	f.removePod("web")
	second := f.pod(newPod("web", nobody, "data"))
	f.checkRefused(f.bind(first, node), "PodReplaced")
	f.binds(second, node)
	f.boundTo("data", "pv")
}

func TestPodsThatCannotBeBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))

	f.pod(newPod("going", nobody, "data"))
	f.markPodForDeletion("going")
	f.podsSeen()
	f.refuses(f.getPod("going"), node, "PodTerminating", f.ns+"/going")

	gated := newPod("gated", nobody, "data")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: "example.com/license"}}
	pod := f.pod(gated)
	f.refuses(pod, node, "PodGated", "example.com/")
	f.patchPod("gated", object{"spec": object{"schedulingGates": nil}})
	f.free(pv)
	f.binds(pod, node)
}

// S10, S19: a pod that was assigned by hand is never repaired.
func TestS19_PodWithNodeNameIsNotRepaired(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local, dynamic := f.class(newLocalClass("local")), f.dynamic("dynamic")
	pv := f.volume(newVolume("pv", local, node))
	f.claim(newClaim("static", local))
	f.claim(newClaim("dynamic", dynamic))
	byHand := withEphemeral(newPod("web", nobody, "static", "dynamic", "missing"), "scratch", dynamic)
	byHand.Spec.NodeName = node
	pod := f.pod(byHand)
	before := f.snapshot()
	for range 2 {
		if text := f.bind(pod, node); text != "" {
			t.Errorf("a bind to the node it is on: %s", text)
		}
	}
	f.checkRefused(f.bind(pod, f.node("b", nil)), "PodAssigned", f.name("a"), f.name("b"))
	before.unwritten()
	f.untouched("static", "dynamic")
	f.free(pv)
}
