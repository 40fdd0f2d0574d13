package testkit

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Namespace is the namespace of all namespaced objects.
const Namespace = "shop"

// LocalClass is the class of claims and volumes that are not told otherwise.
const LocalClass = "local"

// deleted is the deletion time of terminating objects.
var deleted = metav1.Unix(1, 0)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: UID(name)}
}

// UID returns the UID that the builders give to an object of this name.
func UID(name string) types.UID { return types.UID("uid-" + name) }

// PodBuilder builds a pod.
type PodBuilder struct{ *v1.Pod }

// Pod starts a pending pod without volumes.
func Pod(name string) PodBuilder {
	pod := &v1.Pod{ObjectMeta: named(name), Status: v1.PodStatus{Phase: v1.PodPending}}
	pod.Namespace = Namespace
	return PodBuilder{pod}
}

// WithUID sets the UID.
func (b PodBuilder) WithUID(uid types.UID) PodBuilder { b.UID = uid; return b }

// Uses adds a volume for each claim.
func (b PodBuilder) Uses(claims ...string) PodBuilder {
	for _, name := range claims {
		b.add(name, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
	}
	return b
}

// UsesEphemeral adds a generic ephemeral volume; its claim is <pod>-<volume>.
func (b PodBuilder) UsesEphemeral(name string) PodBuilder {
	return b.add(name, v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}})
}

// UsesEmptyDir adds a volume that is no claim.
func (b PodBuilder) UsesEmptyDir(name string) PodBuilder {
	return b.add(name, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
}

func (b PodBuilder) add(name string, source v1.VolumeSource) PodBuilder {
	b.Spec.Volumes = append(b.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return b
}

// OnNode assigns the pod.
func (b PodBuilder) OnNode(node string) PodBuilder { b.Spec.NodeName = node; return b }

// Gated adds a scheduling gate.
func (b PodBuilder) Gated(gate string) PodBuilder {
	b.Spec.SchedulingGates = append(b.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
	return b
}

// Terminating marks the pod as being deleted.
func (b PodBuilder) Terminating() PodBuilder {
	b.DeletionTimestamp, b.Finalizers = &deleted, []string{"example.com/hold"}
	return b
}

// NodeBuilder builds a node.
type NodeBuilder struct{ *v1.Node }

// Node starts a node whose hostname label is its name.
func Node(name string) NodeBuilder {
	node := &v1.Node{ObjectMeta: named(name)}
	node.Labels = map[string]string{v1.LabelHostname: name}
	return NodeBuilder{node}
}

// Label sets a label.
func (b NodeBuilder) Label(key, value string) NodeBuilder { b.Labels[key] = value; return b }

// ClassBuilder builds a storage class.
type ClassBuilder struct{ *storagev1.StorageClass }

// Class starts a class that provisions nothing and waits for the first
// consumer.
func Class(name string) ClassBuilder {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return ClassBuilder{&storagev1.StorageClass{
		ObjectMeta: named(name), Provisioner: volume.NotSupportedProvisioner, VolumeBindingMode: &mode,
	}}
}

// Provisions sets the provisioner.
func (b ClassBuilder) Provisions(driver string) ClassBuilder { b.Provisioner = driver; return b }

// Immediate sets the binding mode.
func (b ClassBuilder) Immediate() ClassBuilder {
	mode := storagev1.VolumeBindingImmediate
	b.VolumeBindingMode = &mode
	return b
}

// Within adds a term of allowedTopologies with one label.
func (b ClassBuilder) Within(key string, values ...string) ClassBuilder {
	b.AllowedTopologies = append(b.AllowedTopologies, v1.TopologySelectorTerm{
		MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: key, Values: values}},
	})
	return b
}

// CSINode builds what a node says of its drivers; migrated are the in-tree
// plugins that are CSI drivers there, separated by commas.
func CSINode(node, migrated string) *storagev1.CSINode {
	csiNode := &storagev1.CSINode{ObjectMeta: named(node)}
	csiNode.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: migrated}
	return csiNode
}

// Driver builds a CSI driver.
func Driver(name string, checksCapacity bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: named(name), Spec: storagev1.CSIDriverSpec{StorageCapacity: &checksCapacity}}
}

// CapacityBuilder builds a storage capacity.
type CapacityBuilder struct {
	*storagev1.CSIStorageCapacity
}

// Capacity starts the capacity of a class that every node can use.
func Capacity(name, class, size string) CapacityBuilder {
	capacity := &storagev1.CSIStorageCapacity{ObjectMeta: named(name), StorageClassName: class, NodeTopology: &metav1.LabelSelector{}}
	capacity.Namespace = Namespace
	quantity := resource.MustParse(size)
	capacity.Capacity = &quantity
	return CapacityBuilder{capacity}
}

// Largest sets the maximum volume size.
func (b CapacityBuilder) Largest(size string) CapacityBuilder {
	quantity := resource.MustParse(size)
	b.MaximumVolumeSize = &quantity
	return b
}

// For limits the nodes by a label.
func (b CapacityBuilder) For(key, value string) CapacityBuilder {
	b.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	return b
}

// ForNobody leaves the topology out.
func (b CapacityBuilder) ForNobody() CapacityBuilder { b.NodeTopology = nil; return b }

// Event builds an event about a claim, last seen at the Unix second given.
func Event(name string, claim *v1.PersistentVolumeClaim, kind, reason, message string, second int64) *v1.Event {
	event := &v1.Event{
		ObjectMeta:     named(name),
		InvolvedObject: v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Type:           kind, Reason: reason, Message: message, LastTimestamp: metav1.Unix(second, 0),
	}
	event.Namespace = claim.Namespace
	return event
}
