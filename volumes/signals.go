package volumes

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// signals wakes waiting calls when something they named changes. A wait costs
// one map entry per name and no polling.
type signals struct {
	mu      sync.Mutex
	waiters map[string]map[*waiter]struct{} // by key
}

// waiter belongs to one call. wake never blocks the sender: it holds at most
// one signal, and the reader looks at everything when woken.
type waiter struct {
	signals *signals
	wake    chan struct{}

	mu   sync.Mutex
	keys map[string]struct{}
	gone map[string]struct{} // keys whose object was seen deleted
}

// Keys of what can be waited for.
func podKey(pod *v1.Pod) string  { return "pod/" + pod.Namespace + "/" + pod.Name }
func nodeKey(name string) string { return "node/" + name }
func claimKey(claim *v1.PersistentVolumeClaim) string {
	return claimNameKey(claim.Namespace, claim.Name)
}
func claimNameKey(namespace, name string) string { return "claim/" + namespace + "/" + name }
func volumeKey(name string) string               { return "volume/" + name }

// poolKey stands for all volumes of a class.
func poolKey(class string) string { return "pool/" + class }

func newSignals() *signals { return &signals{waiters: map[string]map[*waiter]struct{}{}} }

func (s *signals) subscribe(keys ...string) *waiter {
	w := &waiter{signals: s, wake: make(chan struct{}, 1), keys: map[string]struct{}{}, gone: map[string]struct{}{}}
	w.add(keys...)
	return w
}

// add makes the waiter listen to more keys.
func (w *waiter) add(keys ...string) {
	w.signals.mu.Lock()
	defer w.signals.mu.Unlock()
	for _, key := range keys {
		if _, ok := w.keys[key]; ok {
			continue
		}
		w.keys[key] = struct{}{}
		if w.signals.waiters[key] == nil {
			w.signals.waiters[key] = map[*waiter]struct{}{}
		}
		w.signals.waiters[key][w] = struct{}{}
	}
}

// close must be called once, by the waiter's owner.
func (w *waiter) close() {
	w.signals.mu.Lock()
	defer w.signals.mu.Unlock()
	for key := range w.keys {
		delete(w.signals.waiters[key], w)
		if len(w.signals.waiters[key]) == 0 {
			delete(w.signals.waiters, key)
		}
	}
}

// takeGone tells whether the key's object was seen deleted since the last
// call.
func (w *waiter) takeGone(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.gone[key]
	delete(w.gone, key)
	return ok
}

func (s *signals) notify(key string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters[key] {
		if deleted {
			w.mu.Lock()
			w.gone[key] = struct{}{}
			w.mu.Unlock()
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// handlers returns the event handlers, by resource name, that feed the
// signals and the reservations.
func (p *Prebinder) handlers() map[string]cache.ResourceEventHandler {
	return map[string]cache.ResourceEventHandler{
		"pods":                 onChange(func(pod *v1.Pod, gone bool) { p.signals.notify(podKey(pod), gone) }),
		"nodes":                onChange(func(node *v1.Node, gone bool) { p.signals.notify(nodeKey(node.Name), gone) }),
		"csinodes":             onChange(func(node *storagev1.CSINode, _ bool) { p.signals.notify(nodeKey(node.Name), false) }),
		"csistoragecapacities": onChange(func(*storagev1.CSIStorageCapacity, bool) { p.caches.room.catchUp() }),
		"persistentvolumeclaims": onChange(func(claim *v1.PersistentVolumeClaim, gone bool) {
			p.reservations.observeClaim(claim, gone)
			p.signals.notify(claimKey(claim), gone)
		}),
		"persistentvolumes": onChange(func(pv *v1.PersistentVolume, gone bool) {
			p.caches.free.catchUp() // not left to a call
			p.claimedBefore.observe(pv, gone)
			p.reservations.observe(pv, gone)
			p.signals.notify(volumeKey(pv.Name), gone)
			p.signals.notify(poolKey(volume.GetPersistentVolumeClass(pv)), false)
		}),
	}
}

// onChange makes one function of the three that an informer calls.
func onChange[T any](changed func(obj *T, deleted bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(*T); ok {
				changed(o, false)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(*T); ok {
				changed(o, false)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if o, ok := obj.(*T); ok {
				changed(o, true)
			}
		},
	}
}
