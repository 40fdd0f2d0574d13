package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// deleteAny is the part of the deletions that may hit any pod; the others
	// hit one that is being bound.
	deleteAny = 0.25
	// deleteClaims is the part of the deletions that take the pod's own claims too.
	deleteClaims = 0.35
)

// deleter deletes pods, and claims with them.
type deleter struct {
	client    kubernetes.Interface
	namespace string
	view      *view
	dice      *rand.Rand
	shared    map[string]bool // claims that stay
	gap       time.Duration   // between two deletions, on average
	doomed    sync.Map        // UIDs of the pods that it has begun to delete

	pods, claims atomic.Int64
}

// newDeleter returns one that deletes about half as many pods as there are.
func newDeleter(client kubernetes.Interface, namespace string, v *view, w *workload, opts *Options) *deleter {
	users := map[string]int{}
	for _, pod := range w.pods {
		for _, claim := range claimNames(pod) {
			users[claim]++
		}
	}
	shared := map[string]bool{}
	for claim, n := range users {
		shared[claim] = n > 1
	}
	return &deleter{
		client: client, namespace: namespace, view: v, dice: dice(opts.Seed, "deleter"), shared: shared,
		gap: opts.For / time.Duration(max(1, opts.Pods/2)),
	}
}

// run works until ctx ends.
func (d *deleter) run(ctx context.Context) {
	for pause(ctx, time.Duration(d.dice.ExpFloat64()*float64(d.gap))) {
		if pod := d.victim(); pod != nil {
			d.delete(ctx, pod)
		}
	}
}

// victim chooses a pod, nil if there is none.
func (d *deleter) victim() *corev1.Pod {
	claims := names[*corev1.PersistentVolumeClaim](d.view.claims)
	held := map[string]bool{}
	for _, volume := range objects[*corev1.PersistentVolume](d.view.volumes) {
		if volume.Spec.ClaimRef != nil {
			held[volume.Spec.ClaimRef.Name] = true
		}
	}
	var all, binding []*corev1.Pod
	for _, pod := range objects[*corev1.Pod](d.view.pods) {
		if pod.DeletionTimestamp != nil || impossible(pod) {
			continue
		}
		all = append(all, pod)
		for _, name := range claimNames(pod) {
			if claim := claims[name]; pod.Spec.NodeName == "" && claim != nil && (held[name] || begun(claim)) {
				binding = append(binding, pod)
				break
			}
		}
	}
	from := binding
	if d.dice.Float64() < deleteAny {
		from = all
	}
	if len(from) == 0 {
		return nil
	}
	return from[d.dice.IntN(len(from))]
}

// delete deletes the pod. The claims go first, so that they are still being
// deleted when the pod is made anew. The pod follows whatever happens: nobody
// else would help one that was bound just before its claims went.
func (d *deleter) delete(ctx context.Context, pod *corev1.Pod) {
	d.doomed.Store(pod.UID, true)
	if d.dice.Float64() < deleteClaims {
		for _, name := range claimNames(pod) {
			if d.shared[name] {
				continue
			}
			if err := d.client.CoreV1().PersistentVolumeClaims(d.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
				d.claims.Add(1)
			}
		}
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := d.client.CoreV1().Pods(d.namespace).Delete(ctx, pod.Name, options)
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err), nil
	})
	if err == nil {
		d.pods.Add(1)
	}
}

// hasDoomed tells whether it has begun to delete the pod.
func (d *deleter) hasDoomed(uid types.UID) bool {
	_, doomed := d.doomed.Load(uid)
	return doomed
}
