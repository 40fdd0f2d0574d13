package e2e_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// nobody is a schedulerName that no scheduler serves: such a pod is bound by
// the test's own call, or not at all.
const nobody = "nobody"

func newNode(name string, labels map[string]string) *v1.Node {
	all := map[string]string{v1.LabelHostname: name}
	for key, value := range labels {
		all[key] = value
	}
	room := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("64"),
		v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods:   resource.MustParse("1000"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status: v1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

func newClass(name, provisioner string, mode storagev1.VolumeBindingMode, options ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	for _, option := range options {
		option(class)
	}
	return class
}

// newLocalClass makes a class of static volumes that binds with the pod.
func newLocalClass(name string) *storagev1.StorageClass {
	return newClass(name, volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer)
}

// on is the node affinity of a local volume: one label with its values.
func on(label string, values ...string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: values}},
	}}}}
}

// newVolume makes a local volume of 1Gi, RWO, on the host.
func newVolume(name, class, host string, options ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			StorageClassName:              class,
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity:                  on(v1.LabelHostname, host),
		},
	}
	for _, option := range options {
		option(pv)
	}
	return pv
}

// newClaim makes a claim for 1Gi, RWO.
func newClaim(name, class string, options ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       claimSpec(class),
	}
	for _, option := range options {
		option(claim)
	}
	return claim
}

func claimSpec(class string) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		StorageClassName: &class,
		Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// newPod makes a pod with the claims, for the scheduler named.
func newPod(name, scheduler string, claims ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       podSpec(scheduler),
	}
	for i, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
			Name: fmt.Sprintf("v%d", i),
			VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			},
		})
	}
	return pod
}

func podSpec(scheduler string) v1.PodSpec {
	grace := int64(0)
	return v1.PodSpec{
		SchedulerName:                 scheduler,
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []v1.Container{{Name: "main", Image: "none"}},
	}
}

// withEphemeral adds a generic ephemeral volume to the pod.
func withEphemeral(pod *v1.Pod, name, class string) *v1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
		Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: claimSpec(class)}},
	}})
	return pod
}

// newStatefulSet makes a set whose pods each get a claim "data" of the class.
func newStatefulSet(name, scheduler, class string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	spec := podSpec(scheduler)
	spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name,
			Replicas:    &replicas,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template:    v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
			VolumeClaimTemplates: []v1.PersistentVolumeClaim{
				{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec(class)},
			},
		},
	}
}
