package chaos

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// witness looks at the claims of each pod as soon as it is seen bound. At the
// end of the run this could not be seen any more: claims that were late have come.
type witness struct {
	client    kubernetes.Interface
	namespace string
	spoiled   func(types.UID) bool
	bound     chan *corev1.Pod

	seen     int
	failures []string // read it when run has returned
}

// newWitness listens to the view. spoiled tells of a pod, by its UID, that
// somebody has begun to delete, maybe its claims first.
func newWitness(client kubernetes.Interface, namespace string, v *view, spoiled func(types.UID) bool) *witness {
	w := &witness{client: client, namespace: namespace, spoiled: spoiled, bound: make(chan *corev1.Pod, 10000)}
	see := func(object any, before string) {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" && before == "" {
			w.bound <- pod
		}
	}
	_, _ = v.podInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only for a stopped informer
		AddFunc: func(object any) { see(object, "") },
		UpdateFunc: func(before, now any) {
			if was, ok := before.(*corev1.Pod); ok {
				see(now, was.Spec.NodeName)
			}
		},
	})
	return w
}

// run works until ctx ends.
func (w *witness) run(ctx context.Context) {
	for {
		select {
		case pod := <-w.bound:
			w.look(ctx, pod)
		case <-ctx.Done():
			return
		}
	}
}

// look judges one pod by what the API server says now. What has been deleted
// in the meantime proves nothing.
func (w *witness) look(ctx context.Context, pod *corev1.Pod) {
	s := &state{pods: []corev1.Pod{*pod}}
	for _, name := range claimNames(pod) {
		claim, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return
		}
		s.claims = append(s.claims, *claim)
		if claim.Spec.VolumeName == "" {
			continue
		}
		pv, err := w.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err == nil {
			s.volumes = append(s.volumes, *pv)
		} else if !apierrors.IsNotFound(err) {
			return
		}
	}
	node, err := w.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return
	}
	s.nodes = []corev1.Node{*node}
	if failures := s.halfBound(); !w.spoiled(pod.UID) {
		w.seen++
		w.failures = append(w.failures, failures...)
	}
}
