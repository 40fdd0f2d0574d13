package volumes_test

import (
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// tries is how often a pod that can be bound may fail when all is quiet.
const tries = 3

// finish binds, one after the other, all pods that can be bound.
func (w *world) finish() {
	for n, name := range w.Names("pods") {
		for m, node := range nodeNames {
			pod := w.Pod(name)
			if pod.Spec.NodeName == "" && w.bindable(pod, node) {
				w.mustBind(pod, node, w.replicas[(n+m)%len(w.replicas)])
			}
		}
	}
}

func (w *world) mustBind(pod *v1.Pod, node string, r *replica) {
	var err error
	for range tries {
		c := w.call(pod, node, r)
		for !c.ended() {
			synctest.Wait()
			w.controllers()
			time.Sleep(100 * time.Millisecond)
		}
		if err = c.err; err == nil {
			return
		}
	}
	w.audit.wrong("pod %s can be bound on %s, but fails %d times: %s", pod.Name, node, tries, text(err))
}

// bindable tells whether the pod can surely be bound on the node. It shares no
// code with the plan.
func (w *world) bindable(pod *v1.Pod, node string) bool {
	var needs [][]string // of each claim that only a free volume will do for: which
	seen := map[string]bool{}
	for _, name := range claimsOf(pod) {
		if seen[name] {
			continue
		}
		seen[name] = true
		claim := w.Claim(name)
		if claim == nil {
			return false
		}
		fits, ok := w.choices(claim, pod, node)
		if !ok {
			return false
		}
		if fits != nil {
			needs = append(needs, fits)
		}
	}
	return assign(needs, map[string]bool{})
}

// choices returns the free volumes of which the claim needs one on the node;
// nil if it needs none. It is not ok when the node can not have the claim.
func (w *world) choices(claim *v1.PersistentVolumeClaim, pod *v1.Pod, node string) (free []string, ok bool) {
	labels := w.node(node).Labels
	if len(claim.OwnerReferences) > 0 && claim.OwnerReferences[0].UID != pod.UID {
		return nil, false
	}
	if claim.Spec.VolumeName != "" {
		pv := w.Volume(claim.Spec.VolumeName)
		return nil, pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID && volume.CheckNodeAffinity(pv, labels) == nil
	}
	selected, asked := claim.Annotations[volume.AnnSelectedNode]
	if asked {
		return nil, selected == node
	}
	want := claim.Spec.Resources.Requests[v1.ResourceStorage]
	for _, name := range w.Names("persistentvolumes") {
		pv := w.Volume(name)
		has := pv.Spec.Capacity[v1.ResourceStorage]
		good := pv.Spec.StorageClassName == *claim.Spec.StorageClassName && has.Cmp(want) >= 0 && volume.CheckNodeAffinity(pv, labels) == nil
		if ref := pv.Spec.ClaimRef; ref != nil {
			if ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID) {
				return nil, good
			}
			continue
		}
		if good && pv.Status.Phase == v1.VolumeAvailable {
			free = append(free, name)
		}
	}
	if w.provisions(*claim.Spec.StorageClassName) {
		return nil, true
	}
	return free, len(free) > 0
}

func (w *world) provisions(class string) bool {
	class0 := w.States("storageclasses", class, w.Version(), w.Version())[0].(*storagev1.StorageClass)
	return class0.Provisioner != volume.NotSupportedProvisioner
}

// assign tells whether each need can have a volume of its own.
func assign(needs [][]string, taken map[string]bool) bool {
	if len(needs) == 0 {
		return true
	}
	for _, pv := range needs[0] {
		if !taken[pv] {
			taken[pv] = true
			if assign(needs[1:], taken) {
				return true
			}
			delete(taken, pv)
		}
	}
	return false
}
