package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLabel has the value "true" on nodes that have no kubelet.
const NodeLabel = "prebind.dev/simulated-node"

// NodeBuilder builds a Node.
type NodeBuilder struct{ node *corev1.Node }

// Node returns a ready node with 64 CPUs, 256Gi and room for 1,000 pods. Its
// label kubernetes.io/hostname is its name.
func Node(name string) *NodeBuilder {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourcePods:             resource.MustParse("1000"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	return &NodeBuilder{node: &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", NodeLabel: "true",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity.DeepCopy(), Conditions: []corev1.NodeCondition{ready},
		},
	}}
}

// Hostname sets the label kubernetes.io/hostname, which need not be the name.
func (b *NodeBuilder) Hostname(value string) *NodeBuilder {
	return b.Label(corev1.LabelHostname, value)
}

// Zone sets the label topology.kubernetes.io/zone.
func (b *NodeBuilder) Zone(value string) *NodeBuilder {
	return b.Label(corev1.LabelTopologyZone, value)
}

// Label sets a label.
func (b *NodeBuilder) Label(key, value string) *NodeBuilder {
	b.node.Labels[key] = value
	return b
}

// Capacity sets how much of a resource the node has for pods.
func (b *NodeBuilder) Capacity(name corev1.ResourceName, quantity string) *NodeBuilder {
	b.node.Status.Capacity[name] = resource.MustParse(quantity)
	b.node.Status.Allocatable[name] = resource.MustParse(quantity)
	return b
}

// Taint adds a taint.
func (b *NodeBuilder) Taint(key string, effect corev1.TaintEffect) *NodeBuilder {
	b.node.Spec.Taints = append(b.node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	return b
}

// Obj returns the node.
func (b *NodeBuilder) Obj() *corev1.Node { return b.node }
