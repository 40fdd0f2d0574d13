package testkit

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
)

// FinishBinding does the PV controller's part: the volume's claim, if it is
// the one that claimRef means, becomes fully bound.
func (a *API) FinishBinding(pv string) {
	a.t.Helper()
	ref := a.Volume(pv).Spec.ClaimRef
	if ref == nil {
		a.t.Fatalf("volume %s has no claimRef", pv)
	}
	claim := a.Claim(ref.Name)
	if claim == nil || claim.UID != ref.UID || (claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv) {
		return
	}
	a.ChangeVolume(pv, func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
	a.ChangeClaim(ref.Name, func(c *v1.PersistentVolumeClaim) { ClaimBuilder{c}.Bound(pv) })
}

// Provision does a provisioner's part, and then the PV controller's: the volume
// is made for the claim, which becomes fully bound.
func (a *API) Provision(claim string, pv VolumeBuilder) {
	a.t.Helper()
	a.Put(pv.ClaimedByUID(claim, a.Claim(claim).UID).
		Annotate(volume.AnnDynamicallyProvisioned, "csi.example.com").Phase(v1.VolumePending))
	a.FinishBinding(pv.Name)
}

// RunPVController finishes each static binding as soon as its claimRef is
// written, even before the write is answered.
func (a *API) RunPVController() {
	a.After("patch", "persistentvolumes", 0, func(r Request) error {
		a.FinishBinding(r.Name)
		return nil
	})
}

// RunProvisioner makes a volume with the function for each claim whose
// selected-node is written.
func (a *API) RunProvisioner(volumeFor func(claim *v1.PersistentVolumeClaim) VolumeBuilder) {
	a.After("patch", "persistentvolumeclaims", 0, func(r Request) error {
		claim := a.Claim(r.Name)
		if _, asked := claim.Annotations[volume.AnnSelectedNode]; asked && claim.Spec.VolumeName == "" {
			a.Provision(r.Name, volumeFor(claim))
		}
		return nil
	})
}

var _ runtime.Object = VolumeBuilder{}

// volumes returns all volumes, by name.
func (a *API) volumes() []*v1.PersistentVolume {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*v1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(a.objects["persistentvolumes"])) {
		all = append(all, a.objects["persistentvolumes"][name].(*v1.PersistentVolume))
	}
	return all
}

// Names lists the objects of a resource.
func (a *API) Names(resource string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.objects[resource]))
}
