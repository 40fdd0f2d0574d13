package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// Provision is a claim that its class's provisioner makes a volume for.
type Provision struct {
	// Claim is read-only.
	Claim *v1.PersistentVolumeClaim
	// Class is the name of the claim's class.
	Class string
	// UnderWay tells that the claim has a selected-node: the provisioner is at work
	// on it, whatever becomes of the call.
	UnderWay bool
}

func newProvision(claim *v1.PersistentVolumeClaim) Provision {
	_, asked := claim.Annotations[volume.AnnSelectedNode]
	return Provision{Claim: claim, Class: volume.GetPersistentVolumeClaimClass(claim), UnderWay: asked}
}

// Provisions tells which claims of the pod would be provisioned if it were bound
// to the node now: the delayed ones for which no volume is free there. Like
// [Prebinder.Plan] it goes by the caches and what is reserved, asks the API server
// nothing, and may be out of date when it is read. The error is Plan's.
func (p *Prebinder) Provisions(ctx context.Context, pod *v1.Pod, node string) ([]Provision, error) {
	plan, err := p.Plan(ctx, pod, node)
	if err != nil {
		return nil, err
	}
	var provisions []Provision
	for _, b := range plan.Dynamic {
		provisions = append(provisions, newProvision(b.Claim))
	}
	return provisions, nil
}

// Provisions tells which claims of the reservation are, or are going to be, with
// their provisioner.
func (r *Reservation) Provisions() []Provision {
	var provisions []Provision
	for _, i := range r.items {
		if i.kind == itemDynamic {
			provisions = append(provisions, newProvision(i.claim))
		}
	}
	return provisions
}

// OnProvisioning has f called with each claim of the cache, and again at each of its
// changes. over tells that the claim is bound, or gone: no provisioner is at work
// on it any more. f is called from one goroutine and must not block. Call it before
// Start.
func (c *Caches) OnProvisioning(f func(p Provision, over bool)) error {
	_, err := c.informer["persistentvolumeclaims"].AddEventHandler(onChange(func(claim *v1.PersistentVolumeClaim, gone bool) {
		f(newProvision(claim), gone || completed(claim))
	}))
	return err
}

// PodWatch tells a call that waits before it has reserved anything what becomes
// of its pod meanwhile, and people what it waits for. It is not safe for parallel
// use.
type PodWatch struct {
	wait    *boundWait
	notice  *time.Ticker
	waiting []pending
}

// Watch begins to watch the pod, its node and its claims. Close must be called.
func (p *Prebinder) Watch(pod *v1.Pod, node string) *PodWatch {
	call := &waitingCall{pod: pod, node: node, since: time.Now()}
	w := &boundWait{p: p, pod: pod, node: node, call: call, watch: p.signals.subscribe(podKey(pod), nodeKey(node))}
	for _, c := range claimNames(pod) {
		w.watch.add(claimNameKey(pod.Namespace, c.Name))
	}
	return &PodWatch{wait: w, notice: time.NewTicker(NoticeAfter)}
}

// WaitsFor says what claims of the pod wait for, by name, in words that follow
// "waits for": [Prebinder.Waits] lists that until Close, or until something else is
// said.
func (w *PodWatch) WaitsFor(claims map[string]string) {
	w.waiting = w.waiting[:0]
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if claim := w.wait.p.caches.claim(w.wait.pod.Namespace, name); claim != nil {
			w.waiting = append(w.waiting, pending{&item{claim: claim}, claims[name]})
		}
	}
	w.wait.p.waits.replace(w.wait.call, w.waiting)
}

// Notice signals each minute that it is time to Tell.
func (w *PodWatch) Notice() <-chan time.Time { return w.notice.C }

// Tell writes events about what was said last.
func (w *PodWatch) Tell() {
	if len(w.waiting) > 0 {
		w.wait.p.tellWaiting(w.wait.call, w.waiting)
	}
}

// Changed signals that pod, node or a claim may have changed; one signal may
// stand for several changes.
func (w *PodWatch) Changed() <-chan struct{} { return w.wait.watch.wake }

// Check tells why waiting is of no use any more: the pod is gone, replaced, being
// deleted or on another node, or its node is gone. It goes by the caches; with
// verify the API server is asked about a pod that these lack. The error is a fault.
func (w *PodWatch) Check(ctx context.Context, verify bool) error {
	if err := w.wait.lookPod(ctx, verify); err != nil {
		return err
	}
	_, err := w.wait.lookNode(ctx)
	return err
}

// Close ends the watch.
func (w *PodWatch) Close() {
	w.wait.p.waits.replace(w.wait.call, nil)
	w.notice.Stop()
	w.wait.watch.close()
}
