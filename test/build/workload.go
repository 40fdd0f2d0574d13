package build

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatefulSetBuilder builds a StatefulSet.
type StatefulSetBuilder struct{ set *appsv1.StatefulSet }

// StatefulSet returns one replica of a pod without claims. Its pods come one
// after the other, each when the one before is ready.
func StatefulSet(namespace, name string) *StatefulSetBuilder {
	selector, template := pods(name)
	return &StatefulSetBuilder{set: &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: name, Selector: selector, Template: template,
		},
	}}
}

// pods returns the template of a workload's pods and the selector that finds them.
func pods(app string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": app}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(),
	}
}

// Replicas sets the number of pods.
func (b *StatefulSetBuilder) Replicas(n int32) *StatefulSetBuilder {
	b.set.Spec.Replicas = new(n)
	return b
}

// Parallel creates all pods at once.
func (b *StatefulSetBuilder) Parallel() *StatefulSetBuilder {
	b.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	return b
}

// ClaimTemplate gives each pod a claim, named NAME-SET-ORDINAL.
func (b *StatefulSetBuilder) ClaimTemplate(name, class, size string) *StatefulSetBuilder {
	claim := Claim("", name).Class(class).Size(size).Obj()
	b.set.Spec.VolumeClaimTemplates = append(b.set.Spec.VolumeClaimTemplates, *claim)
	return b
}

// Pods changes its pods.
func (b *StatefulSetBuilder) Pods(change func(*PodBuilder)) *StatefulSetBuilder {
	change(&PodBuilder{meta: &b.set.Spec.Template.ObjectMeta, spec: &b.set.Spec.Template.Spec})
	return b
}

// Obj returns the set.
func (b *StatefulSetBuilder) Obj() *appsv1.StatefulSet { return b.set }

// DeploymentBuilder builds a Deployment.
type DeploymentBuilder struct{ deployment *appsv1.Deployment }

// Deployment returns one replica of a pod without claims.
func Deployment(namespace, name string) *DeploymentBuilder {
	selector, template := pods(name)
	return &DeploymentBuilder{deployment: &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: selector, Template: template},
	}}
}

// Replicas sets the number of pods.
func (b *DeploymentBuilder) Replicas(n int32) *DeploymentBuilder {
	b.deployment.Spec.Replicas = new(n)
	return b
}

// Pods changes its pods.
func (b *DeploymentBuilder) Pods(change func(*PodBuilder)) *DeploymentBuilder {
	change(&PodBuilder{meta: &b.deployment.Spec.Template.ObjectMeta, spec: &b.deployment.Spec.Template.Spec})
	return b
}

// Obj returns the deployment.
func (b *DeploymentBuilder) Obj() *appsv1.Deployment { return b.deployment }
