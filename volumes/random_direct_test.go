package volumes_test

import (
	"strconv"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/testkit"
)

// phase checks a write of a volume's phase.
func (a *audit) phase(call *randomCall, before, after *v1.PersistentVolume) {
	want := before.DeepCopy()
	want.ResourceVersion, want.Status.Phase = after.ResourceVersion, v1.VolumeBound
	if diff := cmp.Diff(want, after, cmpopts.EquateEmpty()); diff != "" {
		a.wrong("%s wrote more of volume %s than its phase (-want +got):\n%s", call, after.Name, diff)
	}
	ref := before.Spec.ClaimRef
	if !call.replica.direct() || ref == nil || !call.uses(ref.Name) || before.Status.Phase != v1.VolumeAvailable || before.DeletionTimestamp != nil {
		a.wrong("%s set the phase of volume %s, which was %s and claimed by %v", call, after.Name, before.Status.Phase, ref)
	}
}

// completion checks a write of the claim's side.
func (a *audit) completion(call *randomCall, before, after *v1.PersistentVolumeClaim) {
	want := before.DeepCopy()
	want.ResourceVersion, want.Spec.VolumeName = after.ResourceVersion, after.Spec.VolumeName
	testkit.ClaimBuilder{PersistentVolumeClaim: want}.Annotate(volume.AnnBindCompleted, "yes").Annotate(volume.AnnBoundByController, "yes")
	if diff := cmp.Diff(want, after, cmpopts.EquateEmpty()); diff != "" {
		a.wrong("%s wrote more of claim %s than its binding (-want +got):\n%s", call, after.Name, diff)
	}
	if !call.replica.direct() || !call.uses(after.Name) || before.Spec.VolumeName != "" || before.Annotations[volume.AnnSelectedNode] != "" {
		a.wrong("%s completed claim %s for volume %s; before: volume %q, annotations %v", call, after.Name, after.Spec.VolumeName, before.Spec.VolumeName, before.Annotations)
	}
	version, err := strconv.ParseInt(after.ResourceVersion, 10, 64)
	if err != nil {
		a.wrong("%s: claim %s: %v", call, after.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.completed = append(a.completed, completion{call, after, version})
}

// lost checks that the controller has called no claim Lost.
func (a *audit) lost(controller *testkit.PVController) {
	for _, problem := range controller.Lost() {
		a.wrong("the PV controller calls Lost %s", problem)
	}
}

// atRest checks, for each claim that was completed, that its volume was its own
// at that moment, and in use.
func (a *audit) atRest(w *world) {
	a.lost(w.pvs)
	for _, c := range a.completed {
		pv, ok := w.States("persistentvolumes", c.claim.Spec.VolumeName, c.version, c.version)[0].(*v1.PersistentVolume)
		if !ok || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != c.claim.UID || pv.Status.Phase != v1.VolumeBound {
			a.wrong("%s completed claim %s (uid %s) for a volume that was not its own, or not in use: %v", c.call, c.claim.Name, c.claim.UID, pv)
		}
	}
}
