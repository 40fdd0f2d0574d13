package volumescheduling_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// history remembers what the API does not show any more at the end of a
// scenario: a claim that was bound too late is bound as well, and a claim that
// lost its volume to another one has found a new one.
type history struct {
	mu sync.Mutex
	// boundAt has the resourceVersions that showed pods and claims bound for the
	// first time. The API server takes all of them from one counter of etcd's.
	boundAt map[types.UID]uint64
	thefts  []theft
}

// theft is a volume that was taken from one claim and given to another.
type theft struct {
	volume   string
	from, to v1.ObjectReference
}

// startHistory watches all pods, claims and volumes until ctx ends.
func startHistory(ctx context.Context, client kubernetes.Interface) (*history, error) {
	h := &history{boundAt: map[types.UID]uint64{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	handler := cache.ResourceEventHandlerFuncs{AddFunc: h.note, UpdateFunc: func(_, object any) { h.note(object) }}
	_, err1 := factory.Core().V1().Pods().Informer().AddEventHandler(handler)
	_, err2 := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handler)
	_, err3 := factory.Core().V1().PersistentVolumes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { h.noteVolume(before.(*v1.PersistentVolume), after.(*v1.PersistentVolume)) },
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("watching pods, claims and volumes: %w", err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watching %s: %w", kind, context.Cause(ctx))
		}
	}
	return h, nil
}

func (h *history) note(object any) {
	meta, bound := metav1.Object(nil), false
	switch o := object.(type) {
	case *v1.Pod:
		meta, bound = o, o.Spec.NodeName != ""
	case *v1.PersistentVolumeClaim:
		// The PV controller writes this last, after the volume's claimRef.
		meta, bound = o, o.Spec.VolumeName != "" && metav1.HasAnnotation(o.ObjectMeta, volume.AnnBindCompleted)
	}
	if !bound {
		return
	}
	version, err := strconv.ParseUint(meta.GetResourceVersion(), 10, 64)
	if err != nil {
		return // then nobody ever finds it, and the scenario fails
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.boundAt[meta.GetUID()]; !known {
		h.boundAt[meta.GetUID()] = version
	}
}

// noteVolume notes a claimRef that went from one claim to another. Nobody may
// do that, not even after the first claim was deleted.
func (h *history) noteVolume(before, after *v1.PersistentVolume) {
	from, to := before.Spec.ClaimRef, after.Spec.ClaimRef
	if before.UID != after.UID || from == nil || to == nil || from.UID == "" || from.UID == to.UID {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.thefts = append(h.thefts, theft{volume: after.Name, from: *from, to: *to})
}

// now returns what is known.
func (h *history) now() (boundAt map[types.UID]uint64, thefts []theft) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.boundAt), slices.Clone(h.thefts)
}
