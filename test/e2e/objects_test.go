package e2e_test

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/provisioner"
)

// The objects of these tests are those of package build, with the names that
// the fixture gives them and with changes that only one test needs.

// nobody is a schedulerName that no scheduler serves: such a pod is bound by
// the test's own call, or not at all.
const nobody = "nobody"

func newNode(name string, labels map[string]string) *v1.Node {
	node := build.Node(name)
	for key, value := range labels {
		node.Label(key, value)
	}
	return node.Obj()
}

func newClass(name, provisioner string, mode storagev1.VolumeBindingMode, options ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := build.Class(name).Provisioner(provisioner).Obj()
	class.VolumeBindingMode = &mode
	return changed(class, options)
}

// newLocalClass makes a class of static volumes that binds with the pod.
func newLocalClass(name string) *storagev1.StorageClass {
	return newClass(name, volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer)
}

// failing makes the class's provisioner refuse the first attempts for a claim.
func failing(times int, message string) func(*storagev1.StorageClass) {
	return func(class *storagev1.StorageClass) {
		class.Parameters = map[string]string{provisioner.Failures: strconv.Itoa(times), provisioner.FailureMessage: message}
	}
}

// newVolume makes a local volume of 1Gi, RWO, on the host, kept after release.
func newVolume(name, class, host string, options ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := build.Volume(name).Class(class).Capacity("1Gi").OnNode(host).Reclaim(v1.PersistentVolumeReclaimRetain).Obj()
	return changed(pv, options)
}

// newClaim makes a claim for 1Gi, RWO, in the fixture's namespace.
func newClaim(name, class string, options ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	return changed(build.Claim("", name).Class(class).Obj(), options)
}

// newPod makes a pod with the claims, for the scheduler named.
func newPod(name, scheduler string, claims ...string) *v1.Pod {
	return build.Pod("", name).Scheduler(scheduler).Claim(claims...).Obj()
}

// withEphemeral adds a generic ephemeral volume of 1Gi to the pod.
func withEphemeral(pod *v1.Pod, name, class string) *v1.Pod {
	ephemeral := build.Pod("", pod.Name).Ephemeral(name, class, "1Gi").Obj()
	pod.Spec.Volumes = append(pod.Spec.Volumes, ephemeral.Spec.Volumes...)
	return pod
}

// newStatefulSet makes a set whose pods each get a claim "data" of the class.
func newStatefulSet(name, scheduler, class string, replicas int32, nodes string) *appsv1.StatefulSet {
	return build.StatefulSet("", name).Replicas(replicas).ClaimTemplate("data", class, "1Gi").
		Pods(func(pod *build.PodBuilder) { pod.Scheduler(scheduler).NodeSelector("test", nodes) }).Obj()
}

func capacity(quantity string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(quantity) }
}

func changed[T any](obj *T, options []func(*T)) *T {
	for _, option := range options {
		option(obj)
	}
	return obj
}
