package differential

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// The namespace of the pod and its claims, and one with claims of the same
// names.
const (
	namespace      = "shop"
	otherNamespace = "attic"
)

// state is all of a cluster that a decision about volumes rests on, and the
// pod that is to be placed.
type state struct {
	pod        *v1.Pod
	nodes      []*v1.Node
	csiNodes   []*storagev1.CSINode
	classes    []*storagev1.StorageClass
	drivers    []*storagev1.CSIDriver
	capacities []*storagev1.CSIStorageCapacity
	volumes    []*v1.PersistentVolume
	claims     []*v1.PersistentVolumeClaim
}

func uidOf(name string) types.UID { return types.UID("uid-" + name) }

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uidOf(name)}
}

// mention is a claim as the pod uses it.
type mention struct {
	name      string
	ephemeral bool
}

// mentionOf returns the claim that a volume of the pod stands for.
func mentionOf(pod *v1.Pod, source *v1.Volume) (mention, bool) {
	switch {
	case source.PersistentVolumeClaim != nil:
		return mention{name: source.PersistentVolumeClaim.ClaimName}, true
	case source.Ephemeral != nil:
		return mention{name: ephemeral.VolumeClaimName(pod, source), ephemeral: true}, true
	}
	return mention{}, false
}

// mentions lists the pod's claims, as often as it names them.
func mentions(pod *v1.Pod) []mention {
	var all []mention
	for i := range pod.Spec.Volumes {
		if m, ok := mentionOf(pod, &pod.Spec.Volumes[i]); ok {
			all = append(all, m)
		}
	}
	return all
}

// only returns the pod with those of its volumes alone whose claim is kept.
func only(pod *v1.Pod, keep func(claim string) bool) *v1.Pod {
	reduced := *pod
	reduced.Spec.Volumes = nil
	for i := range pod.Spec.Volumes {
		if m, ok := mentionOf(pod, &pod.Spec.Volumes[i]); ok && keep(m.name) {
			reduced.Spec.Volumes = append(reduced.Spec.Volumes, pod.Spec.Volumes[i])
		}
	}
	return &reduced
}

// once returns the pod with each claim mentioned once, and how often it was.
// Where a claim is used both directly and as an ephemeral volume the stricter
// mention stays, which is the ephemeral one.
func once(pod *v1.Pod) (reduced *v1.Pod, times map[string]int) {
	copied := *pod
	copied.Spec.Volumes = nil
	times, at := map[string]int{}, map[string]int{}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i]
		m, ok := mentionOf(pod, &source)
		if !ok {
			continue
		}
		times[m.name]++
		if times[m.name] == 1 {
			at[m.name] = len(copied.Spec.Volumes)
			copied.Spec.Volumes = append(copied.Spec.Volumes, source)
		} else if m.ephemeral {
			copied.Spec.Volumes[at[m.name]] = source
		}
	}
	return &copied, times
}

func (s *state) claim(name string) *v1.PersistentVolumeClaim {
	for _, claim := range s.claims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}

func (s *state) volume(name string) *v1.PersistentVolume {
	for _, pv := range s.volumes {
		if pv.Name == name {
			return pv
		}
	}
	return nil
}

func (s *state) class(name string) *storagev1.StorageClass {
	for _, class := range s.classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// delayed tells whether the claim is unbound, asks for no volume by name, and
// waits for its first consumer.
func (s *state) delayed(claim *v1.PersistentVolumeClaim) bool {
	class := s.class(volume.GetPersistentVolumeClaimClass(claim))
	return claim.Spec.VolumeName == "" && class != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// hasTies tells whether two volumes are of one class and size, or pre-bound
// to one claim. Nothing in a decision prefers one of them.
func (s *state) hasTies() bool {
	seen := map[string]bool{}
	for _, pv := range s.volumes {
		size := pv.Spec.Capacity[v1.ResourceStorage]
		key := fmt.Sprintf("%s of %d/1000 bytes", volume.GetPersistentVolumeClass(pv), size.MilliValue())
		if ref := pv.Spec.ClaimRef; ref != nil {
			key = "for " + ref.Namespace + "/" + ref.Name
		}
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// completed tells whether the claim's own side says that it is bound.
func completed(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// claimedBy tells whether the volume's claimRef is exactly this claim.
func claimedBy(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}
