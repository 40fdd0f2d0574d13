package e2e_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Bindings that the PV controller will never finish: waiting for them to the
// time-out, ten minutes by default, helps nobody.

// S31: the PV controller looks among volumes of the right access modes only,
// for pre-bound ones as well.
func TestS31_PreboundVolumeOfOtherAccessModes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("mine", class, node, func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = f.claimRef("data", "")
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	}))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	before := f.snapshot()
	f.checkRefused(f.answer(f.start(pod, node)), "NoVolume", "claim "+f.ns+"/data")
	before.unwritten()
	f.volume(newVolume("fits", class, node))
	f.binds(pod, node)
	f.boundTo("data", "fits")
}

// The PV controller passes over volumes that are being deleted, its own
// claimRef or not. The next call takes another one.
func TestVolumeIsMarkedForDeletionWhileItsClaimIsHalfBound(t *testing.T) {
	f := newFixture(t)
	h := holdHalfBound(f)
	f.markVolumeForDeletion(f.name("pv"))
	h.release()
	f.checkRefused(f.answer(h.call), "ClaimRefReset", "claim "+f.ns+"/data", f.name("pv"), "is being deleted")
	h.checkLeftAlone()
	f.volume(newVolume("second", h.class, h.node))
	f.binds(h.pod, h.node)
	f.boundTo("data", "second")
}
