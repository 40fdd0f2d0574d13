package chaos

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// keeper creates what was born and does not exist, as a StatefulSet does for
// its pods and claims and a local volume provisioner for its volumes. It looks at what is
// there, so nothing that fails need be remembered.
type keeper struct {
	client    kubernetes.Interface
	namespace string
	view      *view
	workload  *workload
	start     time.Time
}

// keep works until ctx ends.
func (k *keeper) keep(ctx context.Context) {
	every(ctx, 300*time.Millisecond, func() {
		k.reclaim(ctx)
		k.createVolumes(ctx)
		k.createClaims(ctx)
		k.createPods(ctx)
	})
}

// reclaim removes volumes made in advance whose claim is gone. They are made
// anew when they have gone.
func (k *keeper) reclaim(ctx context.Context) {
	for _, volume := range objects[*corev1.PersistentVolume](k.view.volumes) {
		if volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil && madeInAdvance(volume) {
			_ = k.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion},
			})
		}
	}
}

func madeInAdvance(volume *corev1.PersistentVolume) bool {
	switch volume.Spec.StorageClassName {
	case zoneDisks, localDisks, anyDisks:
		return true
	default:
		return false
	}
}

func (k *keeper) createVolumes(ctx context.Context) {
	exist := names[*corev1.PersistentVolume](k.view.volumes)
	for _, volume := range k.workload.volumes {
		if exist[volume.Name] == nil {
			_, _ = k.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		}
	}
}

func (k *keeper) createClaims(ctx context.Context) {
	exist := names[*corev1.PersistentVolumeClaim](k.view.claims)
	for _, claim := range k.workload.claims {
		if exist[claim.Name] == nil && k.born(claim.Name) {
			_, _ = k.client.CoreV1().PersistentVolumeClaims(k.namespace).Create(ctx, claim, metav1.CreateOptions{})
		}
	}
}

func (k *keeper) createPods(ctx context.Context) {
	exist := names[*corev1.Pod](k.view.pods)
	for _, pod := range k.workload.pods {
		if exist[pod.Name] == nil && k.born(pod.Name) {
			_, _ = k.client.CoreV1().Pods(k.namespace).Create(ctx, pod, metav1.CreateOptions{})
		}
	}
}

func (k *keeper) born(name string) bool { return time.Since(k.start) >= k.workload.birth[name] }
