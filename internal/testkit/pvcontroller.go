package testkit

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
)

// PVController is a PersistentVolume controller whose view of volumes lags: it
// knows each as it was when it last looked at it or wrote it. It decides as
// pv_controller.go of Kubernetes 1.37 does, and a write of it that was decided on
// an older version changes nothing. It is safe for parallel use.
type PVController struct {
	api *API

	mu      sync.Mutex
	volumes map[string]*v1.PersistentVolume
	lost    []string
}

// NewPVController returns a controller that has just started: it knows all
// volumes that there are.
func (a *API) NewPVController() *PVController {
	c := &PVController{api: a, volumes: map[string]*v1.PersistentVolume{}}
	for _, pv := range a.volumes() {
		c.volumes[pv.Name] = pv.DeepCopy()
	}
	return c
}

// Lost tells which claims the controller has called Lost, and why.
func (c *PVController) Lost() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lost)
}

// SyncVolumes looks at all volumes, and at those that are no more.
func (c *PVController) SyncVolumes() {
	c.mu.Lock()
	names := slices.AppendSeq(c.api.Names("persistentvolumes"), maps.Keys(c.volumes))
	c.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.SyncVolume(name)
	}
}

// SyncVolume is one look at the volume.
func (c *PVController) SyncVolume(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pv := c.api.Volume(name)
	if pv == nil {
		delete(c.volumes, name)
		return
	}
	c.volumes[name] = pv
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		c.setPhase(name, v1.VolumeAvailable)
		return
	}
	claim := c.api.Claim(ref.Name)
	switch {
	case claim == nil || claim.UID != ref.UID:
		c.setPhase(name, v1.VolumeReleased)
	case claim.Spec.VolumeName == "":
		c.syncClaim(claim)
	case claim.Spec.VolumeName == name:
		if c.setPhase(name, v1.VolumeBound) {
			c.syncClaim(claim)
		}
	case pv.Annotations[volume.AnnDynamicallyProvisioned] != "":
		c.api.Remove("persistentvolumes", name)
		delete(c.volumes, name)
	default: // the claim has another volume
		if c.updateVolume(name, func(v *v1.PersistentVolume) {
			if v.Annotations[volume.AnnBoundByController] == "" {
				v.Spec.ClaimRef.UID = ""
				return
			}
			v.Spec.ClaimRef = nil
			delete(v.Annotations, volume.AnnBoundByController)
		}) {
			c.setPhase(name, v1.VolumeAvailable)
		}
	}
}

// SyncClaim is one look at the claim.
func (c *PVController) SyncClaim(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if claim := c.api.Claim(name); claim != nil {
		c.syncClaim(claim)
	}
}

func (c *PVController) syncClaim(claim *v1.PersistentVolumeClaim) {
	pv := c.volumes[claim.Spec.VolumeName]
	switch {
	case claim.Annotations[volume.AnnBindCompleted] != "":
		switch {
		case pv == nil:
			c.lose(claim, "it does not know volume "+claim.Spec.VolumeName)
		case pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != claim.UID:
			c.lose(claim, fmt.Sprintf("it knows volume %s as that of claim %s (uid %q)", pv.Name, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID))
		default:
			c.bind(pv, claim)
		}
	case claim.DeletionTimestamp != nil:
	case claim.Spec.VolumeName != "":
		if pv != nil && (pv.Spec.ClaimRef == nil || volume.IsVolumeBoundToClaim(pv, claim)) {
			c.bind(pv, claim)
		}
	default:
		c.syncUnbound(claim)
	}
}

// syncUnbound binds a delayed claim to a volume that is claimed for it, or tells
// the provisioner.
func (c *PVController) syncUnbound(claim *v1.PersistentVolumeClaim) {
	for _, name := range slices.Sorted(maps.Keys(c.volumes)) {
		pv := c.volumes[name]
		if !volume.IsVolumeBoundToClaim(pv, claim) {
			continue
		}
		if good, err := volume.FindMatchingVolume(claim, []*v1.PersistentVolume{pv}, nil, nil, true, true); err == nil && good != nil {
			c.bind(pv, claim)
			return
		}
	}
	if claim.Annotations[volume.AnnSelectedNode] != "" && claim.Annotations[volume.AnnStorageProvisioner] == "" {
		changeAt(c.api, claim, func(to *v1.PersistentVolumeClaim) {
			ClaimBuilder{to}.Annotate(volume.AnnStorageProvisioner, "csi.example.com")
		})
	}
}

// bind writes both sides, as far as it gets.
func (c *PVController) bind(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) {
	bound, dirty, err := volume.GetBindVolumeToClaim(pv, claim)
	if err != nil {
		c.api.t.Error(err)
		return
	}
	if dirty && !c.updateVolume(pv.Name, func(v *v1.PersistentVolume) { v.Spec, v.Annotations = bound.Spec, bound.Annotations }) {
		return
	}
	if !c.setPhase(pv.Name, v1.VolumeBound) {
		return
	}
	changeAt(c.api, claim, func(to *v1.PersistentVolumeClaim) {
		if to.Spec.VolumeName != pv.Name {
			to.Spec.VolumeName = pv.Name
			ClaimBuilder{to}.Annotate(volume.AnnBoundByController, "yes")
		}
		ClaimBuilder{to}.Annotate(volume.AnnBindCompleted, "yes")
		to.Status.Phase = v1.ClaimBound
	})
}

func (c *PVController) lose(claim *v1.PersistentVolumeClaim, why string) {
	if claim.Status.Phase == v1.ClaimLost {
		return
	}
	if changeAt(c.api, claim, func(to *v1.PersistentVolumeClaim) { to.Status.Phase = v1.ClaimLost }) != nil {
		c.lost = append(c.lost, fmt.Sprintf("claim %s (uid %s): %s", claim.Name, claim.UID, why))
	}
}

// setPhase tells whether the volume has the phase now.
func (c *PVController) setPhase(name string, phase v1.PersistentVolumePhase) bool {
	return c.volumes[name].Status.Phase == phase || c.updateVolume(name, func(v *v1.PersistentVolume) { v.Status.Phase = phase })
}

// updateVolume tells whether the volume was still as the controller knew it.
func (c *PVController) updateVolume(name string, f func(*v1.PersistentVolume)) bool {
	now := changeAt(c.api, c.volumes[name], f)
	if now != nil {
		c.volumes[name] = now
	}
	return now != nil
}

// changeAt changes an object if it is still the version given, and returns a copy
// of it, or else nil. f must not use the API.
func changeAt[T any](a *API, known *T, f func(*T)) *T {
	a.mu.Lock()
	defer a.mu.Unlock()
	var obj any = known
	decided := access(obj.(runtime.Object))
	resource := resourceOf(obj.(runtime.Object))
	if a.check(resource, decided.GetName(), decided) != nil {
		return nil
	}
	changed := a.objects[resource][decided.GetName()].DeepCopyObject()
	var typed any = changed
	f(typed.(*T))
	a.put(resource, changed)
	typed = changed.DeepCopyObject()
	return typed.(*T)
}
