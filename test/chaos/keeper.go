package chaos

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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
	create(ctx, k, k.view.volumes, k.workload.volumes, k.client.CoreV1().PersistentVolumes().Create)
}

func (k *keeper) createClaims(ctx context.Context) {
	create(ctx, k, k.view.claims, k.workload.claims, k.client.CoreV1().PersistentVolumeClaims(k.namespace).Create)
}

func (k *keeper) createPods(ctx context.Context) {
	create(ctx, k, k.view.pods, k.workload.pods, k.client.CoreV1().Pods(k.namespace).Create)
}

// create creates the wanted objects that were born and do not exist, several at
// a time. What fails is tried again in the next round.
func create[T interface{ GetName() string }](ctx context.Context, k *keeper, store cache.Store, wanted []T,
	post func(context.Context, T, metav1.CreateOptions) (T, error),
) {
	exist := names[T](store)
	var group errgroup.Group
	group.SetLimit(8)
	for _, object := range wanted {
		if _, exists := exist[object.GetName()]; exists || !k.born(object.GetName()) {
			continue
		}
		group.Go(func() error {
			_, _ = post(ctx, object, metav1.CreateOptions{})
			return nil
		})
	}
	_ = group.Wait() // nothing in it returns an error
}

// born tells whether an object is to exist by now; volumes are from the start.
func (k *keeper) born(name string) bool { return time.Since(k.start) >= k.workload.birth[name] }
