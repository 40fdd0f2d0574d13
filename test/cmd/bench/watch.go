package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// boundWatch notes when a watch first shows a pod with a node.
type boundWatch struct {
	stop func()

	mu      sync.Mutex
	bound   map[string]time.Time // by pod name
	changed chan struct{}        // closed and replaced at each change
}

func watchBound(ctx context.Context, client kubernetes.Interface, namespace string) (*boundWatch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	w := &boundWatch{bound: map[string]time.Time{}, changed: make(chan struct{})}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.note,
		UpdateFunc: func(_, object any) { w.note(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return w, nil
}

func (w *boundWatch) note(object any) {
	now := time.Now()
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.bound[pod.Name]; !known {
		w.bound[pod.Name] = now
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// at tells when a pod was seen with a node; zero: not yet.
func (w *boundWatch) at(pod string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bound[pod]
}

// wait returns when a pod was seen with a node. It fails when no pod at all was
// for the time of stall. progress is told how many there are so far.
func (w *boundWatch) wait(ctx context.Context, pod string, stall time.Duration, progress func(count int)) error {
	timer := time.NewTimer(stall)
	defer timer.Stop()
	for {
		w.mu.Lock()
		_, ok := w.bound[pod]
		changed, count := w.changed, len(w.bound)
		w.mu.Unlock()
		if ok {
			return nil
		}
		progress(count)
		select {
		case <-changed:
			timer.Reset(stall)
		case <-timer.C:
			return fmt.Errorf("waiting for pod %s: no pod was bound for %s", pod, stall)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
