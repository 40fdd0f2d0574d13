package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimBuilder builds a PersistentVolumeClaim.
type ClaimBuilder struct{ claim *corev1.PersistentVolumeClaim }

// Claim returns a claim for 1Gi, ReadWriteOnce, that names no class.
func Claim(namespace, name string) *ClaimBuilder {
	return &ClaimBuilder{claim: &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       claimSpec("1Gi"),
	}}
}

func claimSpec(size string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	}
}

// Class names the class; "" means volumes without a class.
func (b *ClaimBuilder) Class(name string) *ClaimBuilder {
	b.claim.Spec.StorageClassName = new(name)
	return b
}

// Size sets the request.
func (b *ClaimBuilder) Size(quantity string) *ClaimBuilder {
	b.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(quantity)
	return b
}

// Modes replaces the access modes.
func (b *ClaimBuilder) Modes(modes ...corev1.PersistentVolumeAccessMode) *ClaimBuilder {
	b.claim.Spec.AccessModes = modes
	return b
}

// Block asks for a block device.
func (b *ClaimBuilder) Block() *ClaimBuilder {
	b.claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	return b
}

// Selector asks for volumes with a label.
func (b *ClaimBuilder) Selector(key, value string) *ClaimBuilder {
	b.claim.Spec.Selector = metav1.AddLabelToSelector(&metav1.LabelSelector{}, key, value)
	return b
}

// Volume asks for one volume by name.
func (b *ClaimBuilder) Volume(name string) *ClaimBuilder {
	b.claim.Spec.VolumeName = name
	return b
}

// Label sets a label.
func (b *ClaimBuilder) Label(key, value string) *ClaimBuilder {
	metav1.SetMetaDataLabel(&b.claim.ObjectMeta, key, value)
	return b
}

// Annotation sets an annotation.
func (b *ClaimBuilder) Annotation(key, value string) *ClaimBuilder {
	metav1.SetMetaDataAnnotation(&b.claim.ObjectMeta, key, value)
	return b
}

// OwnedBy makes a pod the claim's controller, as for a generic ephemeral volume.
func (b *ClaimBuilder) OwnedBy(pod *corev1.Pod) *ClaimBuilder {
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	b.claim.OwnerReferences = []metav1.OwnerReference{*owner}
	return b
}

// Obj returns the claim.
func (b *ClaimBuilder) Obj() *corev1.PersistentVolumeClaim { return b.claim }
