package volumes

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The caches hold every claim and volume of the cluster for as long as the
// process lives. What no decision reads is dropped on the way in; that is why
// a cached object must never be written back.

// trimMeta drops what is large and never read: managedFields and the copy of
// the manifest that kubectl apply keeps in an annotation.
func trimMeta(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
		delete(accessor.GetAnnotations(), v1.LastAppliedConfigAnnotation)
	}
	return obj, nil
}

// trimPod keeps what admission, nomination and the claims of a pod need.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return obj, nil // a tombstone
	}
	trimmed := &v1.Pod{
		ObjectMeta: trimmedMeta(&pod.ObjectMeta),
		Spec:       v1.PodSpec{NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates},
		Status:     v1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName},
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			kept := v1.Volume{Name: volume.Name}
			kept.PersistentVolumeClaim = volume.PersistentVolumeClaim
			if volume.Ephemeral != nil {
				kept.Ephemeral = &v1.EphemeralVolumeSource{}
			}
			trimmed.Spec.Volumes = append(trimmed.Spec.Volumes, kept)
		}
	}
	return trimmed, nil
}

// trimNode keeps a node's name and labels: volumes look at nothing else.
func trimNode(obj any) (any, error) {
	node, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	trimmed := &v1.Node{ObjectMeta: trimmedMeta(&node.ObjectMeta)}
	trimmed.Labels = onceKeys(node.Labels, every)
	return trimmed, nil
}

func trimmedMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              m.Name,
		Namespace:         m.Namespace,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}

// trimClaim drops what others keep at a claim. Of its status, the phase alone is
// read: a resize is not ours.
func (c *common) trimClaim(obj any) (any, error) {
	claim, ok := obj.(*v1.PersistentVolumeClaim)
	if !ok {
		return obj, nil // a tombstone
	}
	trimNotes(&claim.ObjectMeta)
	claim.Labels = nil
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase}

	onceEach(claim.Spec.AccessModes)
	c.sizes(&claim.Spec.Resources.Requests)
	if class := claim.Spec.StorageClassName; class != nil {
		once(class)
	}
	once(&claim.Status.Phase)
	return claim, nil
}

// trimVolume drops what the kubelet and the driver alone need to mount a volume.
func (c *common) trimVolume(obj any) (any, error) {
	pv, ok := obj.(*v1.PersistentVolume)
	if !ok {
		return obj, nil
	}
	trimNotes(&pv.ObjectMeta)
	pv.Labels = onceKeys(pv.Labels, every) // claims select by them
	if csi := pv.Spec.CSI; csi != nil {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		once(&pv.Spec.CSI.Driver)
	}

	onceEach(pv.Spec.AccessModes)
	c.sizes(&pv.Spec.Capacity)
	if required := requiredAffinity(pv); required != nil {
		for _, term := range required.NodeSelectorTerms {
			for i := range term.MatchExpressions {
				once(&term.MatchExpressions[i].Key)
				once(&term.MatchExpressions[i].Operator)
			}
		}
	}
	once(&pv.Spec.StorageClassName)
	once(&pv.Spec.PersistentVolumeReclaimPolicy)
	once(&pv.Status.Phase)
	return pv, nil
}

// trimNotes keeps the annotations of Kubernetes' own domains: the ways in which
// schedulers, provisioners and controllers talk about a claim or a volume.
func trimNotes(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	m.Annotations = onceKeys(m.Annotations, func(key string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return key != v1.LastAppliedConfigAnnotation && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"))
	})
	onceEach(m.Finalizers)
}
