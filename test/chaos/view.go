package chaos

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// view follows what the API shows while the run goes on. The checks at the end
// do not use it.
type view struct {
	factory               informers.SharedInformerFactory
	pods, claims, volumes cache.Store
	podInformer           cache.SharedIndexInformer
}

// watchAll returns when the view is complete. It ends with ctx; see stop.
func watchAll(ctx context.Context, client kubernetes.Interface, namespace string) (*view, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	v := &view{
		factory:     factory,
		pods:        core.Pods().Informer().GetStore(),
		claims:      core.PersistentVolumeClaims().Informer().GetStore(),
		volumes:     core.PersistentVolumes().Informer().GetStore(),
		podInformer: core.Pods().Informer(),
	}
	factory.StartWithContext(ctx)
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, errors.Join(errors.New("watching pods, claims and volumes"), context.Cause(ctx))
		}
	}
	return v, nil
}

// stop waits for the watches to end; their context must have ended.
func (v *view) stop() { v.factory.Shutdown() }

// objects returns what a store holds, in the order of the names: random
// choices must not depend on the order of a map.
func objects[T interface{ GetName() string }](store cache.Store) []T {
	var all []T
	for _, object := range store.List() {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

func names[T interface{ GetName() string }](store cache.Store) map[string]T {
	all := map[string]T{}
	for _, object := range objects[T](store) {
		all[object.GetName()] = object
	}
	return all
}

// progress counts the pods that can be bound.
type progress struct{ bound, waiting, absent int }

func (v *view) progress(possible []string) progress {
	var p progress
	pods := names[*corev1.Pod](v.pods)
	for _, name := range possible {
		switch pod := pods[name]; {
		case pod == nil || pod.DeletionTimestamp != nil:
			p.absent++
		case pod.Spec.NodeName == "":
			p.waiting++
		default:
			p.bound++
		}
	}
	return p
}

// unsettled counts volumes and claims that somebody still has to look after.
func (v *view) unsettled(w *workload) int {
	n := 0
	volumes, claims := names[*corev1.PersistentVolume](v.volumes), names[*corev1.PersistentVolumeClaim](v.claims)
	for _, volume := range w.volumes {
		if volumes[volume.Name] == nil {
			n++
		}
	}
	uids := map[any]bool{}
	for _, claim := range claims {
		uids[claim.UID] = true
		if claim.DeletionTimestamp != nil {
			n++
		}
	}
	for _, volume := range volumes {
		if ref := volume.Spec.ClaimRef; volume.DeletionTimestamp != nil || ref != nil && !uids[ref.UID] {
			n++
		}
	}
	return n
}

// every calls do until ctx ends, with a pause between two calls.
func every(ctx context.Context, interval time.Duration, do func()) {
	for {
		do()
		if !pause(ctx, interval) {
			return
		}
	}
}
