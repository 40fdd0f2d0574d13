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

// wait returns when a pod was seen with a node.
func (w *boundWatch) wait(ctx context.Context, pod string, timeout time.Duration) (time.Time, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		w.mu.Lock()
		bound, ok := w.bound[pod]
		changed := w.changed
		w.mu.Unlock()
		if ok {
			return bound, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return time.Time{}, fmt.Errorf("waiting for pod %s: it was not bound within %s", pod, timeout)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}
