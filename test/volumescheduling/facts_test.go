package volumescheduling_test

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// facts are what the API server shows of one scene at its end.
type facts struct {
	pods    []v1.Pod
	claims  []v1.PersistentVolumeClaim
	volumes []v1.PersistentVolume
	nodes   []v1.Node
	classes []storagev1.StorageClass
	boundAt map[types.UID]uint64 // as in history
	thefts  []theft              // in the whole cluster
}

// settled reads the scene's facts and checks what must hold after every
// scenario, whatever it was about.
func (s *scene) settled() {
	s.t.Helper()
	pods, err := s.client.CoreV1().Pods(s.ns).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.ns).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	volumes, err := s.client.CoreV1().PersistentVolumes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	nodes, err := s.client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	classes, err := s.client.StorageV1().StorageClasses().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	f := facts{pods: pods.Items, claims: claims.Items, volumes: volumes.Items, nodes: nodes.Items, classes: classes.Items}
	s.eventually(func() string { // the watch may be late
		f.boundAt, f.thefts = shared.history.now()
		return f.unknown()
	})
	if wrong := f.wrong(s.binder); len(wrong) > 0 {
		s.t.Errorf("in namespace %s, mode %s:\n%s", s.ns, s.mode, strings.Join(wrong, "\n"))
	}
}

// wrong tells everything that must not be. The claims are those of one
// namespace; volumes, nodes and classes may be those of the whole cluster.
func (f facts) wrong(binder string) []string {
	var wrong []string
	for i := range f.pods {
		if f.pods[i].Spec.NodeName != "" {
			wrong = append(wrong, f.wrongPod(&f.pods[i])...)
		}
	}
	return slices.Concat(wrong, f.wrongVolumes(), f.stolenVolumes(), f.wrongWriters(binder))
}

// unknown tells of a pod or claim that is bound and not in the history.
func (f facts) unknown() string {
	for _, pod := range f.pods {
		if f.boundAt[pod.UID] == 0 && pod.Spec.NodeName != "" {
			return fmt.Sprintf("the watch has not shown pod %s bound", pod.Name)
		}
	}
	for _, claim := range f.claims {
		if f.boundAt[claim.UID] == 0 && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			return fmt.Sprintf("the watch has not shown claim %s bound", claim.Name)
		}
	}
	return ""
}

// wrongPod checks that a bound pod has only claims that are fully bound, and
// were before it, to volumes that its node can reach.
func (f facts) wrongPod(pod *v1.Pod) []string {
	node := find(f.nodes, func(n *v1.Node) bool { return n.Name == pod.Spec.NodeName })
	if node == nil {
		return []string{fmt.Sprintf("pod %s is on node %s, which is not there", pod.Name, pod.Spec.NodeName)}
	}
	var wrong []string
	for _, name := range claimNames(pod) {
		claim := find(f.claims, func(c *v1.PersistentVolumeClaim) bool { return c.Name == name })
		if claim == nil {
			wrong = append(wrong, fmt.Sprintf("pod %s is bound, its claim %s is not there", pod.Name, name))
			continue
		}
		if claim.Spec.VolumeName == "" || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			wrong = append(wrong, fmt.Sprintf("pod %s is bound, its claim %s is not: volumeName %q, annotations %v", pod.Name, name, claim.Spec.VolumeName, claim.Annotations))
			continue
		}
		if podAt, claimAt := f.boundAt[pod.UID], f.boundAt[claim.UID]; podAt <= claimAt {
			wrong = append(wrong, fmt.Sprintf("pod %s was bound (version %d) before its claim %s (version %d)", pod.Name, podAt, name, claimAt))
		}
		pv := f.volumeNamed(claim.Spec.VolumeName)
		switch {
		case pv == nil:
			wrong = append(wrong, fmt.Sprintf("pod %s is bound, volume %s of its claim %s is not there", pod.Name, claim.Spec.VolumeName, name))
		case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
			wrong = append(wrong, fmt.Sprintf("pod %s is bound, volume %s of its claim %s (uid %s) has claimRef %v", pod.Name, pv.Name, name, claim.UID, pv.Spec.ClaimRef))
		default:
			if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
				wrong = append(wrong, fmt.Sprintf("pod %s is on node %s, which cannot reach volume %s: %v", pod.Name, node.Name, pv.Name, err))
			}
		}
	}
	return wrong
}

// wrongVolumes checks that claims and volumes are bound one to one, and that no
// volume is held for a claim that has another one or is gone.
func (f facts) wrongVolumes() []string {
	var wrong []string
	byUID := map[types.UID]*v1.PersistentVolumeClaim{}
	owner := map[string]string{}
	namespace := ""
	for i := range f.claims {
		claim := &f.claims[i]
		namespace = claim.Namespace
		byUID[claim.UID] = claim
		if name := claim.Spec.VolumeName; name != "" {
			if other, taken := owner[name]; taken {
				wrong = append(wrong, fmt.Sprintf("volume %s has two claims, %s and %s", name, other, claim.Name))
			}
			owner[name] = claim.Name
		}
	}
	for i := range f.volumes {
		pv := &f.volumes[i]
		ref := pv.Spec.ClaimRef
		if ref == nil || ref.UID == "" || ref.Namespace != namespace {
			continue
		}
		if claim := byUID[ref.UID]; claim == nil {
			wrong = append(wrong, fmt.Sprintf("volume %s is held for claim %s (uid %s), which is not there", pv.Name, ref.Name, ref.UID))
		} else if claim.Spec.VolumeName != pv.Name {
			wrong = append(wrong, fmt.Sprintf("volume %s is held for claim %s, which has volume %q", pv.Name, claim.Name, claim.Spec.VolumeName))
		}
	}
	return wrong
}

// stolenVolumes tells of volumes that were taken from one of the claims.
func (f facts) stolenVolumes() []string {
	var wrong []string
	for _, theft := range f.thefts {
		if find(f.claims, func(c *v1.PersistentVolumeClaim) bool { return c.UID == theft.from.UID }) != nil {
			wrong = append(wrong, fmt.Sprintf("volume %s was taken from claim %s and given to %s", theft.volume, theft.from.Name, theft.to.Name))
		}
	}
	return wrong
}

// wrongWriters checks that the choice of volumes was made by binder and by
// nobody else that could have: else the scenario proved nothing about it.
func (f facts) wrongWriters(binder string) []string {
	var wrong []string
	for i := range f.claims {
		claim := &f.claims[i]
		pv := f.volumeNamed(claim.Spec.VolumeName)
		writers := managers(claim)
		if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnSelectedNode) && !slices.Contains(writers, binder) {
			wrong = append(wrong, fmt.Sprintf("the selected node of claim %s was not written by %s: its writers are %v", claim.Name, binder, writers))
		}
		if pv != nil {
			if f.chosen(claim, pv) && !slices.Contains(managers(pv), binder) {
				wrong = append(wrong, fmt.Sprintf("volume %s of claim %s was not chosen by %s: its writers are %v", pv.Name, claim.Name, binder, managers(pv)))
			}
			writers = append(writers, managers(pv)...)
		}
		for _, other := range []string{"prebind", "kube-scheduler"} {
			if other != binder && slices.Contains(writers, other) {
				wrong = append(wrong, fmt.Sprintf("claim %s or its volume was written by %s, not by %s alone", claim.Name, other, binder))
			}
		}
	}
	return wrong
}

// chosen tells whether the volume is one that was there and that somebody has
// chosen for a claim that waits for a pod: neither of the two named the other.
func (f facts) chosen(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	if !metav1.HasAnnotation(pv.ObjectMeta, volume.AnnBoundByController) || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController) {
		return false
	}
	class := find(f.classes, func(c *storagev1.StorageClass) bool {
		return claim.Spec.StorageClassName != nil && c.Name == *claim.Spec.StorageClassName
	})
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func (f facts) volumeNamed(name string) *v1.PersistentVolume {
	return find(f.volumes, func(pv *v1.PersistentVolume) bool { return pv.Name == name })
}

// managers lists who has written an object.
func managers(object metav1.Object) []string {
	var names []string
	for _, entry := range object.GetManagedFields() {
		names = append(names, entry.Manager)
	}
	return names
}

// claimNames lists the claims that a pod mounts.
func claimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i]
		switch {
		case source.PersistentVolumeClaim != nil:
			names = append(names, source.PersistentVolumeClaim.ClaimName)
		case source.Ephemeral != nil:
			names = append(names, pod.Name+"-"+source.Name)
		}
	}
	return names
}

// find returns the first element that is wanted, nil if there is none.
func find[T any](list []T, wanted func(*T) bool) *T {
	for i := range list {
		if wanted(&list[i]) {
			return &list[i]
		}
	}
	return nil
}
