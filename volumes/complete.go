package volumes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/ctxlog"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/internal/logging"
)

// With Config.CompleteClaims a call does not wait for the PV controller to
// finish a static binding. It writes, one after the other, what the controller's
// bind writes, in its order:
//
//	volume: spec.claimRef                 write.go, for everybody
//	volume: status.phase Bound            from here on a deletion only marks it
//	claim:  spec.volumeName, bind-completed, bound-by-controller
//
// The controller calls a completed claim Lost, for ever, if it does not know the
// claim's volume or knows it as another claim's. The rules below keep that from
// being our doing; docs/adr/0011-direct-completion.md has every interleaving.

// protection is the finalizer with which a volume in phase Bound outlives its
// deletion. The API server gives it to every volume that is made.
const protection = "kubernetes.io/pv-protection"

// completable tells whether a claim may be completed whose volume's claimRef is
// written on exactly this version: the PV controller must have seen the volume
// free. It has when the phase is Available, but for a claimRef that was there and
// went again under that phase, which it may have seen, and not yet that it went.
func (p *Prebinder) completable(pv *v1.PersistentVolume) bool {
	if !p.completeClaims || pv.Spec.ClaimRef != nil || pv.Status.Phase != v1.VolumeAvailable || pv.DeletionTimestamp != nil {
		return false
	}
	if metav1.HasAnnotation(pv.ObjectMeta, volume.AnnBoundByController) || !slices.Contains(pv.Finalizers, protection) {
		return false
	}
	// What was read live may have a past that the cache has not shown.
	now := p.caches.volume(pv.Name)
	return now != nil && now.ResourceVersion == pv.ResourceVersion && !p.claimedBefore.has(pv.UID)
}

// complete writes the rest of the item's binding if that is allowed. Whatever
// keeps it from that, and is no reason to give the binding up, leaves it to the
// PV controller, and the call to its wait.
func (p *Prebinder) complete(ctx context.Context, i *item) error {
	if !i.completable {
		return nil
	}
	p.giveTurn(ctx, i)
	held, err := p.holdVolume(ctx, i)
	if held && err == nil {
		err = p.completeClaim(ctx, i)
	}
	switch fault.CodeOf(err) {
	case fault.APIError, fault.Forbidden, fault.Conflict:
		ctxlog.From(ctx).Warn("left a claim to the PV controller", logging.Claim(i.claim.Namespace, i.claim.Name),
			zap.String("volume", i.volume.Name), zap.Error(err))
		return nil
	}
	return err
}

// holdVolume sets the volume's phase to Bound: a volume that is deleted while
// its phase is Available is gone, and its claim, once completed, Lost. It tells
// whether the volume is the claim's to keep.
func (p *Prebinder) holdVolume(ctx context.Context, i *item) (held bool, err error) {
	try := func() error {
		pv, err := p.patchPhase(ctx, i.volume)
		if err == nil {
			i.volume, held = pv, true
		}
		return err
	}
	reread := func() (settled bool, err error) {
		if held, err = p.lookAgain(ctx, i); err != nil {
			return false, err
		}
		if held && i.volume.Status.Phase == v1.VolumeBound {
			came := p.shown(ctx, func() bool { return p.claimAhead(i) }, claimKey(i.claim))
			p.controllerFirst.Store(came)
			return true, nil
		}
		return !held, nil
	}
	if p.volumeAhead(i) {
		if settled, err := reread(); settled || err != nil {
			return held, err
		}
	}
	err = p.persist(ctx, instrument.VolumeStatus, func() string { return i.volume.Name }, try, reread)
	return held, err
}

// giveTurn lets the PV controller, where it was faster the last time, go first for
// a moment: two who write the same thing are slower than either. A controller
// that is held up by its request rate or by a queue does not get a second turn.
func (p *Prebinder) giveTurn(ctx context.Context, i *item) {
	if !p.controllerFirst.Load() {
		return
	}
	came := p.shown(ctx, func() bool { return p.volumeAhead(i) }, volumeKey(i.volume.Name))
	p.controllerFirst.Store(came)
}

// lookAgain looks at the item's volume as it is now and tells whether its claim may
// still be completed. If not, the wait judges what has become of it. A cache that
// is ahead of the call will do: the next write carries the version seen there.
func (p *Prebinder) lookAgain(ctx context.Context, i *item) (good bool, err error) {
	ahead := p.shown(ctx, func() bool { return p.volumeAhead(i) }, volumeKey(i.volume.Name))
	now := p.caches.volume(i.volume.Name)
	if !ahead || now == nil {
		if now, err = p.live().volume(ctx, i.volume.Name); err != nil {
			return false, err
		}
	}
	if now == nil || now.UID != i.volume.UID {
		return false, fault.New(fault.ClaimRefReset, "%s: volume %s was deleted before the claim was bound to it", describe(i.claim), i.volume.Name)
	}
	i.volume = now
	good = owns(i.claim, now) && now.DeletionTimestamp == nil &&
		(now.Status.Phase == v1.VolumeAvailable || now.Status.Phase == v1.VolumeBound)
	return good, nil
}

// completeClaim writes the claim's side, unless the PV controller, or anybody,
// has bound it meanwhile.
func (p *Prebinder) completeClaim(ctx context.Context, i *item) error {
	name := i.claim.Namespace + "/" + i.claim.Name
	try := func() error {
		claim, err := p.patchBound(ctx, i.claim, i.volume.Name)
		if err != nil {
			return err
		}
		i.claim = claim
		ctxlog.From(ctx).Debug("completed the claim", logging.Claim(i.claim.Namespace, i.claim.Name),
			zap.String("volume", i.volume.Name), zap.String("resourceVersion", claim.ResourceVersion))
		return nil
	}
	reread := func() (settled bool, err error) {
		if p.shown(ctx, func() bool { return p.claimAhead(i) }, claimKey(i.claim)) {
			i.claim = p.caches.claim(i.claim.Namespace, i.claim.Name)
			if problem := alive(i.claim); problem != nil {
				return false, problem
			}
		} else if err := p.refreshClaim(ctx, i); err != nil {
			return false, err
		}
		if i.claim.Spec.VolumeName != "" || metav1.HasAnnotation(i.claim.ObjectMeta, volume.AnnSelectedNode) {
			return true, nil // bound, perhaps by us, or somebody has other plans: for the wait to judge
		}
		good, err := p.lookAgain(ctx, i)
		return err == nil && (!good || i.volume.Status.Phase != v1.VolumeBound), err
	}
	if p.claimAhead(i) { // the controller is quick when it has little to do: spare the conflict
		if settled, err := reread(); settled || err != nil {
			return err
		}
	}
	return p.persist(ctx, instrument.Claims, func() string { return name }, try, reread)
}

// turn is how long something that another has just done may take to come here by
// the watch before the API server is asked.
const turn = 25 * time.Millisecond

// shown waits until the cache shows what seen asks for, no longer than a turn, and
// tells whether it does. key names the object.
func (p *Prebinder) shown(ctx context.Context, seen func() bool, key string) bool {
	watch := p.signals.subscribe(key)
	defer watch.close()
	over := time.NewTimer(turn)
	defer over.Stop()
	for !seen() {
		select {
		case <-watch.wake:
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// volumeAhead tells whether the cache shows a newer version of the item's volume
// than the call knows.
func (p *Prebinder) volumeAhead(i *item) bool {
	now := p.caches.volume(i.volume.Name)
	return now != nil && now.UID == i.volume.UID && older(i.volume.ResourceVersion, now.ResourceVersion)
}

// claimAhead tells the same of the claim.
func (p *Prebinder) claimAhead(i *item) bool {
	now := p.caches.claim(i.claim.Namespace, i.claim.Name)
	return now != nil && now.UID == i.claim.UID && older(i.claim.ResourceVersion, now.ResourceVersion)
}

func (p *Prebinder) patchPhase(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pv.ResourceVersion, "uid": pv.UID},
		"status":   map[string]any{"phase": v1.VolumeBound},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of volume %s: %w", pv.Name, err)
	}
	now, err := p.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	p.metrics.writes.Sent(instrument.VolumeStatus, err)
	return now, err
}

// patchBound writes what the PV controller's bindClaimToVolume does.
func (p *Prebinder) patchBound(ctx context.Context, claim *v1.PersistentVolumeClaim, pv string) (*v1.PersistentVolumeClaim, error) {
	annotations := map[string]string{volume.AnnBindCompleted: "yes"}
	if !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController) {
		annotations[volume.AnnBoundByController] = "yes"
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": claim.ResourceVersion, "uid": claim.UID, "annotations": annotations},
		"spec":     map[string]any{"volumeName": pv},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return p.patchClaim(ctx, claim, data)
}

// claimedBefore are the volumes that were seen claimed in phase Available and in
// no other phase since. If such a one is free again, somebody has taken the
// claimRef away, and the phase does not tell whether the PV controller knows.
type claimedBefore struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

// observe is called for each change of a volume in the cache.
func (c *claimedBefore) observe(pv *v1.PersistentVolume, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case deleted || pv.Status.Phase != v1.VolumeAvailable:
		delete(c.uids, pv.UID)
	case pv.Spec.ClaimRef != nil:
		c.uids[pv.UID] = struct{}{}
	}
}

func (c *claimedBefore) has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.uids[uid]
	return ok
}
