package build

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NoProvisioner is the provisioner of classes that only have volumes made by
// an administrator.
const NoProvisioner = "kubernetes.io/no-provisioner"

// ClassBuilder builds a StorageClass.
type ClassBuilder struct{ class *storagev1.StorageClass }

// Class returns a class without a provisioner that waits for the first consumer.
func Class(name string) *ClassBuilder {
	return &ClassBuilder{class: &storagev1.StorageClass{
		TypeMeta:          metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       NoProvisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}}
}

// Provisioner names who makes the class's volumes.
func (b *ClassBuilder) Provisioner(name string) *ClassBuilder {
	b.class.Provisioner = name
	return b
}

// Immediate binds claims without waiting for a pod.
func (b *ClassBuilder) Immediate() *ClassBuilder {
	b.class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	return b
}

// Param sets a parameter for the provisioner.
func (b *ClassBuilder) Param(key, value string) *ClassBuilder {
	if b.class.Parameters == nil {
		b.class.Parameters = map[string]string{}
	}
	b.class.Parameters[key] = value
	return b
}

// AllowedTopology adds a term of allowedTopologies: a label that must have one
// of the values.
func (b *ClassBuilder) AllowedTopology(key string, values ...string) *ClassBuilder {
	b.class.AllowedTopologies = append(b.class.AllowedTopologies, corev1.TopologySelectorTerm{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}},
	})
	return b
}

// Retain keeps volumes whose claim is deleted.
func (b *ClassBuilder) Retain() *ClassBuilder {
	b.class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
	return b
}

// Obj returns the class.
func (b *ClassBuilder) Obj() *storagev1.StorageClass { return b.class }

// VolumeBuilder builds a PersistentVolume.
type VolumeBuilder struct{ volume *corev1.PersistentVolume }

// Volume returns a local filesystem volume of 10Gi, ReadWriteOnce, reclaim
// policy Retain, without a class. The API server demands a node affinity for
// it: OnNode, InZone or Affinity.
func Volume(name string) *VolumeBuilder {
	return &VolumeBuilder{volume: &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/mnt/disks/" + name},
			},
		},
	}}
}

// Class sets the class.
func (b *VolumeBuilder) Class(name string) *VolumeBuilder {
	b.volume.Spec.StorageClassName = name
	return b
}

// Capacity sets the size.
func (b *VolumeBuilder) Capacity(quantity string) *VolumeBuilder {
	b.volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(quantity)
	return b
}

// Modes replaces the access modes.
func (b *VolumeBuilder) Modes(modes ...corev1.PersistentVolumeAccessMode) *VolumeBuilder {
	b.volume.Spec.AccessModes = modes
	return b
}

// Block makes it a block device.
func (b *VolumeBuilder) Block() *VolumeBuilder {
	b.volume.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	return b
}

// OnNode ties it to the nodes with these values of kubernetes.io/hostname.
func (b *VolumeBuilder) OnNode(hostnames ...string) *VolumeBuilder {
	return b.Affinity(In(corev1.LabelHostname, hostnames...))
}

// InZone ties it to the nodes of zones.
func (b *VolumeBuilder) InZone(zones ...string) *VolumeBuilder {
	return b.Affinity(In(corev1.LabelTopologyZone, zones...))
}

// Affinity sets its node affinity to terms, of which one must match.
func (b *VolumeBuilder) Affinity(terms ...corev1.NodeSelectorTerm) *VolumeBuilder {
	b.volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	return b
}

// HostPath makes it a hostPath volume, which needs no node affinity.
func (b *VolumeBuilder) HostPath() *VolumeBuilder {
	b.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/mnt/disks/" + b.volume.Name},
	}
	return b
}

// CSI makes it a volume of a CSI driver, which needs no node affinity.
func (b *VolumeBuilder) CSI(driver string) *VolumeBuilder {
	b.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: b.volume.Name},
	}
	return b
}

// ClaimRef sets whom it belongs to. An empty uid means: any claim of that name.
func (b *VolumeBuilder) ClaimRef(namespace, name string, uid types.UID) *VolumeBuilder {
	b.volume.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: uid,
	}
	return b
}

// Reclaim sets what happens to it when its claim is deleted.
func (b *VolumeBuilder) Reclaim(policy corev1.PersistentVolumeReclaimPolicy) *VolumeBuilder {
	b.volume.Spec.PersistentVolumeReclaimPolicy = policy
	return b
}

// Label sets a label.
func (b *VolumeBuilder) Label(key, value string) *VolumeBuilder {
	metav1.SetMetaDataLabel(&b.volume.ObjectMeta, key, value)
	return b
}

// Annotation sets an annotation.
func (b *VolumeBuilder) Annotation(key, value string) *VolumeBuilder {
	metav1.SetMetaDataAnnotation(&b.volume.ObjectMeta, key, value)
	return b
}

// Obj returns the volume.
func (b *VolumeBuilder) Obj() *corev1.PersistentVolume { return b.volume }

// In is a node selector term: the label has one of the values.
func In(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
	}}
}
