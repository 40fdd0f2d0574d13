package volumes

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/tracing"
)

// recheck is the slow safety net under the watches.
const recheck = 10 * time.Second

// boundWait is one pod's wait for its claims to be fully bound. Signals of
// the watch wake it; then everything is looked at anew, in the caches alone.
// The API server is asked only to make sure that what left a cache is gone.
type boundWait struct {
	p     *Prebinder
	pod   *v1.Pod
	node  string
	items []*item
	watch *waiter
	call  *waitingCall
}

func (p *Prebinder) newWait(call *waitingCall, r *Reservation) *boundWait {
	pod := call.pod
	w := &boundWait{p: p, pod: pod, node: r.node, items: r.items, call: call}
	w.watch = p.signals.subscribe(podKey(pod), nodeKey(r.node))
	w.listen()
	return w
}

// listen adds the keys of the claims and of the volumes known by now.
func (w *boundWait) listen() {
	for _, i := range w.items {
		w.watch.add(claimKey(i.claim))
		if i.volume != nil {
			w.watch.add(volumeKey(i.volume.Name))
		}
		if i.claim.Spec.VolumeName != "" {
			w.watch.add(volumeKey(i.claim.Spec.VolumeName))
		}
	}
}

// run returns nil when every claim is fully bound and its volume is reachable
// from the node as the node is now.
func (w *boundWait) run(ctx context.Context) (err error) {
	ctx, span := tracing.Start(ctx, "wait for claims")
	defer func() { span.End(err) }()
	safety := time.NewTicker(recheck)
	defer safety.Stop()
	notice := time.NewTimer(w.call.untilNotice())
	defer notice.Stop()
	verify := false // ask the API server about what the cache lacks
	for {
		w.listen()
		waiting, err := w.look(ctx, verify)
		if err != nil || len(waiting) == 0 {
			return err
		}
		verify = false
		select {
		case <-w.watch.wake:
		case <-safety.C:
			verify = true
		case <-notice.C:
			w.p.tellWaiting(w.call, waiting)
			notice.Reset(NoticeAfter)
		case <-ctx.Done():
			return w.ended(ctx, waiting)
		}
	}
}

// pending is an item that is not fully bound yet, and what it waits for.
type pending struct {
	item *item
	what string
}

// look judges the pod, the node and every claim once.
func (w *boundWait) look(ctx context.Context, verify bool) ([]pending, error) {
	if err := w.lookPod(ctx, verify); err != nil {
		return nil, err
	}
	node, err := w.lookNode(ctx)
	if err != nil {
		return nil, err
	}
	csiNode, err := w.p.caches.CSINodes.Get(w.node)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading csinode %s: %w", w.node, err)
	}
	var waiting []pending
	for _, i := range w.items {
		if err := w.refresh(ctx, i, verify); err != nil {
			return nil, err
		}
		what, err := w.judge(ctx, i, node, csiNode)
		if err != nil {
			w.p.tellFailure(w.pod, i.claim, err)
			return nil, err
		}
		if what != "" {
			waiting = append(waiting, pending{i, what})
		}
		w.p.waits.looked(i, what)
	}
	return waiting, nil
}

// lookPod ends the wait when the pod is gone, replaced, being deleted or on
// another node. A pod also leaves the cache when somebody assigns it to this
// one; that is left for the bind stage to confirm.
func (w *boundWait) lookPod(ctx context.Context, verify bool) error {
	gone := w.watch.takeGone(podKey(w.pod))
	pod, err := w.p.caches.Pods.Pods(w.pod.Namespace).Get(w.pod.Name)
	// One that is older is the pod's predecessor: the watch lags.
	if err != nil || older(pod.ResourceVersion, w.pod.ResourceVersion) {
		if !gone && !verify {
			return nil // not shown by the watch yet; admission read it live
		}
		pod, err = w.p.client.CoreV1().Pods(w.pod.Namespace).Get(ctx, w.pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fault.New(fault.PodNotFound, "pod %s/%s: pod does not exist any more", w.pod.Namespace, w.pod.Name)
		}
		if err != nil {
			return nil //nolint:nilerr // no answer proves nothing; the safety check asks again
		}
	}
	switch {
	case pod.UID != w.pod.UID:
		return fault.New(fault.PodReplaced, "pod %s/%s: it was deleted and made anew (uid %s, was %s)", pod.Namespace, pod.Name, pod.UID, w.pod.UID)
	case pod.DeletionTimestamp != nil:
		return fault.New(fault.PodTerminating, "pod %s/%s: it is being deleted", pod.Namespace, pod.Name)
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != w.node:
		return fault.New(fault.PodAssigned, "pod %s/%s: somebody has assigned it to node %s meanwhile", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	return nil
}

// lookNode returns the node as it is now.
func (w *boundWait) lookNode(ctx context.Context) (*v1.Node, error) {
	node, err := w.p.nodeNow(ctx, w.node)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, fault.New(fault.NodeNotFound, "node %s: it was deleted while claims of pod %s/%s were being bound for it", w.node, w.pod.Namespace, w.pod.Name)
	}
	return node, nil
}

// refresh brings the item's claim and volume up to what the caches show,
// never back behind what the call knows already.
func (w *boundWait) refresh(ctx context.Context, i *item, verify bool) error {
	gone := w.watch.takeGone(claimKey(i.claim)) || verify
	claim, err := w.p.caches.Claims.PersistentVolumeClaims(i.claim.Namespace).Get(i.claim.Name)
	switch {
	case err == nil && !older(claim.ResourceVersion, i.claim.ResourceVersion):
		if problem := sameClaim(i.claim, claim); problem != nil {
			return problem
		}
		i.claim = claim
	case err != nil && gone:
		now, err := w.p.live().claim(ctx, i.claim.Namespace, i.claim.Name)
		if err != nil {
			return nil //nolint:nilerr // as in lookPod
		}
		if problem := sameClaim(i.claim, now); problem != nil {
			return problem
		}
		i.claim = now
	}
	return w.refreshVolume(ctx, i, verify)
}

func (w *boundWait) refreshVolume(ctx context.Context, i *item, verify bool) error {
	name := i.claim.Spec.VolumeName
	if name == "" {
		if i.volume == nil {
			return nil
		}
		name = i.volume.Name
	}
	w.watch.add(volumeKey(name))
	gone := w.watch.takeGone(volumeKey(name)) || verify
	known := i.volume
	if known != nil && known.Name != name {
		known, i.owned = nil, false // another volume than planned came; judge that one
	}
	pv, err := w.p.caches.Volumes.Get(name)
	switch {
	case err == nil && (known == nil || !older(pv.ResourceVersion, known.ResourceVersion)):
		known = pv
	case err != nil && gone:
		now, err := w.p.live().volume(ctx, name)
		if err != nil {
			return nil //nolint:nilerr // as in lookPod
		}
		if now == nil && i.claim.Spec.VolumeName == "" {
			return fault.New(fault.ClaimRefReset, "%s: volume %s was deleted before the claim was bound to it", describe(i.claim), name)
		}
		known = now
	}
	w.replaceVolume(i, known)
	return nil
}

// replaceVolume keeps the share of a reservation with the volume it is for.
func (w *boundWait) replaceVolume(i *item, pv *v1.PersistentVolume) {
	if i.hold != nil && (pv == nil || pv.Name != i.hold.volume) {
		w.p.unhold(i)
	}
	i.volume = pv
}

// judge returns "" if the item is fully bound and its volume reachable, else
// what it waits for, or why waiting is no use.
func (w *boundWait) judge(ctx context.Context, i *item, node *v1.Node, csiNode *storagev1.CSINode) (string, error) {
	if i.volume != nil {
		if err := reachable(i.volume, node, csiNode); err != nil {
			return "", nodeConflict(i.claim, i.volume, node, err)
		}
	}
	if i.claim.Spec.VolumeName != "" {
		return judgeNamed(i)
	}
	if i.kind != itemDynamic {
		if i.volume == nil || !owns(i.claim, i.volume) {
			return "", claimRefReset(i)
		}
		if i.volume.DeletionTimestamp != nil { // the PV controller passes over it
			return "", fault.New(fault.ClaimRefReset, "%s: volume %s is being deleted before the claim was bound to it", describe(i.claim), i.volume.Name)
		}
		return fmt.Sprintf("the PV controller to finish the binding to volume %s", i.volume.Name), nil
	}
	selected, asked := i.claim.Annotations[volume.AnnSelectedNode]
	switch {
	case !asked:
		return "", w.provisioningFailed(ctx, i)
	case selected != w.node:
		return "", selectedNodeConflict(i.claim, selected, w.node)
	}
	return fmt.Sprintf("provisioner %s to make a volume for node %s", i.provisioner, w.node), nil
}

// judgeNamed judges a claim that names its volume. The two sides are written one
// after the other and seen in any order, so one that is not there yet may come;
// one that was there and is no more will not.
func judgeNamed(i *item) (string, error) {
	switch {
	case i.volume == nil && i.owned:
		return "", fault.New(fault.VolumeNotFound, "%s: volume %s was deleted: %s", describe(i.claim), i.claim.Spec.VolumeName, reasonVolumeNotFound)
	case i.volume == nil:
		return fmt.Sprintf("volume %s to appear", i.claim.Spec.VolumeName), nil
	case !owns(i.claim, i.volume) && i.owned:
		return "", claimRefReset(i)
	case !owns(i.claim, i.volume):
		return fmt.Sprintf("volume %s, claimed by %s, to be claimed by it", i.volume.Name, claimedBy(i.volume)), nil
	}
	i.owned = true
	if !completed(i.claim) {
		return fmt.Sprintf("the PV controller to finish the binding to volume %s", i.volume.Name), nil
	}
	return "", nil
}

func claimRefReset(i *item) error {
	if i.volume == nil {
		return fault.New(fault.ClaimRefReset, "%s: its volume is gone before the claim was bound to it", describe(i.claim))
	}
	return fault.New(fault.ClaimRefReset, "%s: ClaimRef got reset for pv %q: it is now %s, claimed by %s",
		describe(i.claim), i.volume.Name, i.volume.Status.Phase, claimedBy(i.volume))
}

func (w *boundWait) provisioningFailed(ctx context.Context, i *item) error {
	cause := w.p.warning(ctx, i.claim)
	if cause == "" {
		cause = fmt.Sprintf("provisioner %s gave the claim back (no event says why; see its log)", i.provisioner)
	}
	return fault.New(fault.ProvisioningFailed, "%s: %s: %s", describe(i.claim), w.node, cause)
}

// ended explains a wait that its context cut off.
func (w *boundWait) ended(ctx context.Context, waiting []pending) error {
	cause := context.Cause(ctx)
	if fault.CodeOf(cause) == fault.CallerGone {
		return cause // nobody reads it
	}
	lookup, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	explain := fault.CodeOf(cause) == fault.BindTimeout // not for all calls at once, at a shutdown
	texts := make([]string, 0, len(waiting))
	for _, p := range waiting {
		text := fmt.Sprintf("%s waits for %s", describe(p.item.claim), p.what)
		if explain {
			if event := w.p.lastEvent(lookup, p.item.claim, false); event != "" {
				text += " (last event: " + event + ")"
			}
		}
		texts = append(texts, text)
	}
	return fault.New(fault.CodeOf(cause), "%s; %s", strings.Join(texts, "; "), fault.Detail(cause))
}
