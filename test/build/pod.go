package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodBuilder builds a Pod, or the pods of a workload.
type PodBuilder struct {
	meta *metav1.ObjectMeta
	spec *corev1.PodSpec
}

// Pod returns a pod of one container that asks for next to nothing.
func Pod(namespace, name string) *PodBuilder {
	spec := podSpec()
	return &PodBuilder{meta: &metav1.ObjectMeta{Namespace: namespace, Name: name}, spec: &spec}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "pause",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
		},
	}}}
}

// Claim mounts claims.
func (b *PodBuilder) Claim(names ...string) *PodBuilder {
	for _, name := range names {
		b.volume(name, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		})
	}
	return b
}

// Ephemeral mounts a generic ephemeral volume of a class. Its claim will be
// named POD-NAME.
func (b *PodBuilder) Ephemeral(name, class, size string) *PodBuilder {
	spec := claimSpec(size)
	spec.StorageClassName = new(class)
	return b.volume(name, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec},
	}})
}

func (b *PodBuilder) volume(name string, source corev1.VolumeSource) *PodBuilder {
	b.spec.Volumes = append(b.spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	return b
}

// NodeSelector asks for nodes with a label.
func (b *PodBuilder) NodeSelector(key, value string) *PodBuilder {
	if b.spec.NodeSelector == nil {
		b.spec.NodeSelector = map[string]string{}
	}
	b.spec.NodeSelector[key] = value
	return b
}

// OnHost asks for the node with this kubernetes.io/hostname.
func (b *PodBuilder) OnHost(hostname string) *PodBuilder {
	return b.NodeSelector(corev1.LabelHostname, hostname)
}

// NodeName assigns it to a node without a scheduler.
func (b *PodBuilder) NodeName(name string) *PodBuilder {
	b.spec.NodeName = name
	return b
}

// CPU sets how much CPU it asks for.
func (b *PodBuilder) CPU(quantity string) *PodBuilder {
	b.spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(quantity)
	return b
}

// Gate adds a scheduling gate.
func (b *PodBuilder) Gate(name string) *PodBuilder {
	b.spec.SchedulingGates = append(b.spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	return b
}

// Scheduler names the scheduler that handles it.
func (b *PodBuilder) Scheduler(name string) *PodBuilder {
	b.spec.SchedulerName = name
	return b
}

// Label sets a label.
func (b *PodBuilder) Label(key, value string) *PodBuilder {
	metav1.SetMetaDataLabel(b.meta, key, value)
	return b
}

// Obj returns the pod.
func (b *PodBuilder) Obj() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: *b.meta, Spec: *b.spec,
	}
}
