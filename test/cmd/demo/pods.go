package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
)

// podTimes are the moments at which the watch showed something about a pod.
type podTimes struct {
	pod   *corev1.Pod
	seen  time.Time // it exists
	bound time.Time // it has a node; zero before
}

// tookToBind is the time from the pod's creation to its assignment.
func (p podTimes) tookToBind() time.Duration { return p.bound.Sub(p.seen) }

// podWatch keeps what the watch shows of pods and claims of one namespace.
type podWatch struct {
	stop    func()
	claims  cache.Indexer
	changed chan struct{} // gets a value, if it has room, after each change

	mu   sync.Mutex
	pods map[string]podTimes // by name
}

// watchPods starts a watch and returns when it is in step with the API server.
func watchPods(ctx context.Context, client kubernetes.Interface, namespace string) (*podWatch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods, claims := factory.Core().V1().Pods().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	w := &podWatch{claims: claims.GetIndexer(), changed: make(chan struct{}, 1), pods: map[string]podTimes{}}
	for _, informer := range []cache.SharedIndexInformer{pods, claims} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    w.update,
			UpdateFunc: func(_, object any) { w.update(object) },
			DeleteFunc: w.remove,
		})
		if err != nil {
			return nil, fmt.Errorf("watching pods: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, claims.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return w, nil
}

func (w *podWatch) update(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		now := time.Now()
		w.mu.Lock()
		times, known := w.pods[pod.Name]
		if !known || times.pod.UID != pod.UID {
			times = podTimes{seen: now}
		}
		times.pod = pod
		if times.bound.IsZero() && pod.Spec.NodeName != "" {
			times.bound = now
		}
		w.pods[pod.Name] = times
		w.mu.Unlock()
	}
	w.notify()
}

func (w *podWatch) remove(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		w.mu.Lock()
		delete(w.pods, pod.Name)
		w.mu.Unlock()
	}
	w.notify()
}

func (w *podWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// all returns the pods by name.
func (w *podWatch) all() []podTimes {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []podTimes
	for _, p := range w.pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b podTimes) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return pods
}

// claimsOf returns the names of a pod's claims, sorted, and of the volumes they
// are bound to, in the same order.
func (w *podWatch) claimsOf(pod *corev1.Pod) (claims, volumes []string) {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			claims = append(claims, ephemeral.VolumeClaimName(pod, &v))
		}
	}
	slices.Sort(claims)
	for _, name := range claims {
		object, _, err := w.claims.GetByKey(pod.Namespace + "/" + name)
		if claim, ok := object.(*corev1.PersistentVolumeClaim); err == nil && ok && claim.Spec.VolumeName != "" {
			volumes = append(volumes, claim.Spec.VolumeName)
		}
	}
	return claims, volumes
}
