package testkit

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// ClaimBuilder builds a claim.
type ClaimBuilder struct{ *v1.PersistentVolumeClaim }

// Claim starts an unbound claim of LocalClass for 10Gi, ReadWriteOnce.
func Claim(name string) ClaimBuilder {
	class := LocalClass
	claim := &v1.PersistentVolumeClaim{ObjectMeta: named(name)}
	claim.Namespace, claim.Annotations = Namespace, map[string]string{}
	claim.Spec.StorageClassName = &class
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Status.Phase = v1.ClaimPending
	return ClaimBuilder{claim}.Size("10Gi")
}

// WithUID sets the UID.
func (b ClaimBuilder) WithUID(uid types.UID) ClaimBuilder { b.UID = uid; return b }

// Class sets the class.
func (b ClaimBuilder) Class(name string) ClaimBuilder { b.Spec.StorageClassName = &name; return b }

// NoClass leaves the field out.
func (b ClaimBuilder) NoClass() ClaimBuilder { b.Spec.StorageClassName = nil; return b }

// Size sets the request.
func (b ClaimBuilder) Size(size string) ClaimBuilder {
	b.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	return b
}

// Modes sets the access modes.
func (b ClaimBuilder) Modes(modes ...v1.PersistentVolumeAccessMode) ClaimBuilder {
	b.Spec.AccessModes = modes
	return b
}

// Block asks for a block device.
func (b ClaimBuilder) Block() ClaimBuilder {
	mode := v1.PersistentVolumeBlock
	b.Spec.VolumeMode = &mode
	return b
}

// Selects sets the selector to one label.
func (b ClaimBuilder) Selects(key, value string) ClaimBuilder {
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	return b
}

// Attributes sets the attributes class.
func (b ClaimBuilder) Attributes(class string) ClaimBuilder {
	b.Spec.VolumeAttributesClassName = &class
	return b
}

// Annotate sets an annotation.
func (b ClaimBuilder) Annotate(key, value string) ClaimBuilder {
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, value)
	return b
}

// Selected sets the node that a provisioner is asked for.
func (b ClaimBuilder) Selected(node string) ClaimBuilder {
	return b.Annotate(volume.AnnSelectedNode, node)
}

// Names sets spec.volumeName and no more: asked for by hand, or half bound.
func (b ClaimBuilder) Names(pv string) ClaimBuilder { b.Spec.VolumeName = pv; return b }

// Bound makes the claim's side of a finished binding.
func (b ClaimBuilder) Bound(pv string) ClaimBuilder {
	b.Status.Phase = v1.ClaimBound
	return b.Names(pv).Annotate(volume.AnnBindCompleted, "yes").Annotate(volume.AnnBoundByController, "yes")
}

// Lost marks a claim whose volume is gone.
func (b ClaimBuilder) Lost() ClaimBuilder { b.Status.Phase = v1.ClaimLost; return b }

// Terminating marks the claim as being deleted.
func (b ClaimBuilder) Terminating() ClaimBuilder {
	b.DeletionTimestamp, b.Finalizers = &deleted, []string{"kubernetes.io/pvc-protection"}
	return b
}

// OwnedBy makes the pod the claim's controller.
func (b ClaimBuilder) OwnedBy(pod PodBuilder) ClaimBuilder {
	yes := true
	b.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes},
	}
	return b
}

// protection is the finalizer of volumes.
const protection = "kubernetes.io/pv-protection"

// VolumeBuilder builds a volume.
type VolumeBuilder struct{ *v1.PersistentVolume }

// Volume starts an available volume of LocalClass with 10Gi, ReadWriteOnce,
// that every node can reach, with the finalizer that the API server gives it.
func Volume(name string) VolumeBuilder {
	pv := &v1.PersistentVolume{ObjectMeta: named(name)}
	pv.Labels, pv.Annotations = map[string]string{}, map[string]string{}
	pv.Finalizers = []string{protection}
	pv.Spec.StorageClassName = LocalClass
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv.Status.Phase = v1.VolumeAvailable
	return VolumeBuilder{pv}.Size("10Gi")
}

// Class sets the class.
func (b VolumeBuilder) Class(name string) VolumeBuilder { b.Spec.StorageClassName = name; return b }

// Size sets the capacity.
func (b VolumeBuilder) Size(size string) VolumeBuilder {
	b.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	return b
}

// Modes sets the access modes.
func (b VolumeBuilder) Modes(modes ...v1.PersistentVolumeAccessMode) VolumeBuilder {
	b.Spec.AccessModes = modes
	return b
}

// Block makes it a block device.
func (b VolumeBuilder) Block() VolumeBuilder {
	mode := v1.PersistentVolumeBlock
	b.Spec.VolumeMode = &mode
	return b
}

// Label sets a label.
func (b VolumeBuilder) Label(key, value string) VolumeBuilder { b.Labels[key] = value; return b }

// Annotate sets an annotation.
func (b VolumeBuilder) Annotate(key, value string) VolumeBuilder {
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, value)
	return b
}

// Attributes sets the attributes class.
func (b VolumeBuilder) Attributes(class string) VolumeBuilder {
	b.Spec.VolumeAttributesClassName = &class
	return b
}

// Phase sets the phase.
func (b VolumeBuilder) Phase(phase v1.PersistentVolumePhase) VolumeBuilder {
	b.Status.Phase = phase
	return b
}

// Terminating marks the volume as being deleted.
func (b VolumeBuilder) Terminating() VolumeBuilder {
	b.DeletionTimestamp, b.Finalizers = &deleted, []string{protection}
	return b
}

// OnHost limits the volume to nodes with this hostname label.
func (b VolumeBuilder) OnHost(hostname string) VolumeBuilder {
	return b.Within(v1.LabelHostname, hostname)
}

// Within limits the volume to nodes with one of the label's values; called
// again it adds an alternative.
func (b VolumeBuilder) Within(key string, values ...string) VolumeBuilder {
	if b.Spec.NodeAffinity == nil {
		b.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
	}
	required := b.Spec.NodeAffinity.Required
	required.NodeSelectorTerms = append(required.NodeSelectorTerms, v1.NodeSelectorTerm{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}},
	})
	return b
}

// AWSDisk makes it a disk of the in-tree plugin, in one zone.
func (b VolumeBuilder) AWSDisk(zone string) VolumeBuilder {
	b.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://" + zone + "/vol-1"}
	return b.Within(v1.LabelTopologyZone, zone)
}

// PreBound makes an administrator's claimRef, without UID.
func (b VolumeBuilder) PreBound(claim string) VolumeBuilder {
	b.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: Namespace, Name: claim}
	return b
}

// ClaimedBy makes the volume's side of a binding to the claim.
func (b VolumeBuilder) ClaimedBy(claim ClaimBuilder) VolumeBuilder {
	return b.PreBound(claim.Name).claimedAs(claim.UID).Phase(v1.VolumeBound)
}

// ClaimedByUID makes a claimRef with any UID; the phase stays.
func (b VolumeBuilder) ClaimedByUID(claim string, uid types.UID) VolumeBuilder {
	return b.PreBound(claim).claimedAs(uid)
}

func (b VolumeBuilder) claimedAs(uid types.UID) VolumeBuilder { b.Spec.ClaimRef.UID = uid; return b }

// Copy returns an independent builder of an equal volume under another name.
func (b VolumeBuilder) Copy(name string) VolumeBuilder {
	pv := b.DeepCopy()
	pv.Name, pv.UID = name, UID(name)
	pv.Labels = maps.Clone(pv.Labels)
	return VolumeBuilder{pv}
}
