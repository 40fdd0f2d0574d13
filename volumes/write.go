package volumes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/ctxlog"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/internal/logging"
)

// fieldManager owns our fields in managedFields.
const fieldManager = "prebind"

// write sends every write of the plan, and returns when all are settled: one that
// fails does not cut off another half way, whose outcome would then be unknown.
// The claim with the first UID is written for before the others, which go in
// parallel then: another replica that is about to send the claims to another node
// begins with the same one, and if it was faster, nothing else has been written.
func (p *Prebinder) write(ctx context.Context, r *Reservation) error {
	node, err := p.nodeNow(ctx, r.node)
	if err != nil {
		return err
	}
	if node == nil {
		return fault.New(fault.NodeNotFound, "node %s does not exist", r.node)
	}
	p.waits.mark(r, waitForWrite)
	items := slices.DeleteFunc(slices.Clone(r.items), func(i *item) bool { return i.kind == itemNamed })
	slices.SortFunc(items, byUID)
	var group errgroup.Group
	for at, i := range items {
		first := at == 0 && len(items) > 1
		if first {
			if err := p.place(ctx, i, node); err != nil {
				return err
			}
		}
		group.Go(guarded(func() error {
			if !first {
				if err := p.place(ctx, i, node); err != nil {
					return err
				}
			}
			return p.complete(ctx, i)
		}))
	}
	return group.Wait()
}

// byUID is the order in which replicas write for claims.
func byUID(a, b *item) int { return cmp.Compare(a.claim.UID, b.claim.UID) }

// place makes the write that decides on which node the claim's storage is.
func (p *Prebinder) place(ctx context.Context, i *item, node *v1.Node) error {
	if i.kind == itemStatic {
		return p.claimVolume(ctx, i, node)
	}
	return p.selectNode(ctx, i, node.Name)
}

// claimVolume writes the claimRef of the item's volume: of another one, if
// somebody else was faster.
func (p *Prebinder) claimVolume(ctx context.Context, i *item, node *v1.Node) error {
	tried := map[string]*v1.PersistentVolume{}
	try := func() error {
		bound, dirty, err := volume.GetBindVolumeToClaim(i.volume, i.claim)
		if err != nil {
			return fault.New(fault.Internal, "%s: volume %s: %w", describe(i.claim), i.volume.Name, err)
		}
		if dirty {
			completable := p.completable(i.volume)
			if bound, err = p.patchVolume(ctx, i.volume, bound); err != nil {
				return err
			}
			i.completable = completable
			ctxlog.From(ctx).Debug("wrote claimRef", logging.Claim(i.claim.Namespace, i.claim.Name),
				zap.String("volume", bound.Name), zap.String("resourceVersion", bound.ResourceVersion))
		}
		p.settle(i, bound)
		return nil
	}
	reread := func() (bool, error) {
		now, err := p.live().volume(ctx, i.volume.Name)
		if err != nil {
			return false, err
		}
		if now != nil && owns(i.claim, now) {
			if err := p.refreshClaim(ctx, i); err != nil {
				return false, err
			}
			p.settle(i, now)
			return true, nil
		}
		if now != nil {
			good, err := volume.FindMatchingVolume(i.claim, []*v1.PersistentVolume{now}, node, nil, true, true)
			if err == nil && good != nil && p.keep(i, now, node.Name) {
				return false, nil
			}
		}
		if err := p.refreshClaim(ctx, i); err != nil {
			return false, err
		}
		if i.claim.Spec.VolumeName != "" { // bound by another call or by hand: for the wait to judge
			p.unhold(i)
			i.kind, i.volume = itemNamed, nil
			return true, nil
		}
		tried[i.volume.Name] = i.volume
		return false, p.pickAnother(i, now, node, tried)
	}
	return p.persist(ctx, instrument.Volumes, func() string { return i.volume.Name }, try, reread)
}

// keep makes the volume as it is now the item's, if it is promised to nobody
// else: it may have been deleted and made anew, or be pre-bound no longer.
func (p *Prebinder) keep(i *item, now *v1.PersistentVolume, node string) bool {
	if !volume.IsVolumeBoundToClaim(now, i.claim) && (i.hold == nil || !p.reservations.current(i.hold)) {
		holds, ok := p.reservations.reserve(node, []Binding{{Claim: i.claim, Volume: now}})
		if !ok {
			return false
		}
		i.hold = holds[0]
	}
	i.volume = now
	return true
}

// settle records that the API shows the item's volume as the claim's.
func (p *Prebinder) settle(i *item, pv *v1.PersistentVolume) {
	i.volume, i.hold = pv, nil // from here on the cache ends the reservation
	p.reservations.wrote(pv, i.claim.UID)
}

// pickAnother replaces the item's volume, which turned out to be taken, by
// another one that fits. taken is the volume as it is now, or nil.
func (p *Prebinder) pickAnother(i *item, taken *v1.PersistentVolume, node *v1.Node, tried map[string]*v1.PersistentVolume) error {
	cause := "it was deleted"
	if taken != nil {
		cause = fmt.Sprintf("it is now %s, claimed by %s", taken.Status.Phase, claimedBy(taken))
	}
	p.metrics.conflicts.WithLabelValues(conflictTaken).Inc()
	if i.hold != nil {
		p.reservations.lost(i.hold)
		i.hold = nil
	}
	for {
		facts := ClaimFacts{Claim: i.claim}
		q, err := p.gatherVolumes(&facts)
		if err != nil {
			return err
		}
		if q != nil {
			facts.Free = p.caches.free.find(q, node, 1+len(tried))
		}
		next, err := facts.choose(node, tried)
		if err != nil {
			return fault.New(fault.NoVolume, "%s: node %s: %w", describe(i.claim), node.Name, err)
		}
		if next == nil {
			return fault.New(fault.NoVolume, "%s: node %s: volume %s was chosen, but %s, and no other fits: %s",
				describe(i.claim), node.Name, i.volume.Name, cause, reasonNoVolume)
		}
		if holds, ok := p.reservations.reserve(node.Name, []Binding{{Claim: i.claim, Volume: next}}); ok {
			i.volume, i.hold = next, holds[0]
			return nil
		}
		tried[next.Name] = next
	}
}

// patchVolume writes the claimRef, and bound-by-controller if bound has it
// new, on exactly the volume that was decided on.
func (p *Prebinder) patchVolume(ctx context.Context, from, bound *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	patch := map[string]any{"spec": map[string]any{"claimRef": bound.Spec.ClaimRef}}
	meta := map[string]any{"resourceVersion": from.ResourceVersion, "uid": from.UID}
	if _, had := from.Annotations[volume.AnnBoundByController]; !had {
		if value, has := bound.Annotations[volume.AnnBoundByController]; has {
			meta["annotations"] = map[string]string{volume.AnnBoundByController: value}
		}
	}
	patch["metadata"] = meta
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of volume %s: %w", from.Name, err)
	}
	pv, err := p.client.CoreV1().PersistentVolumes().Patch(ctx, from.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
	p.metrics.writes.Sent(instrument.Volumes, err)
	return pv, err
}

// selectNode writes the claim's selected-node, unless it has one.
func (p *Prebinder) selectNode(ctx context.Context, i *item, node string) error {
	name := i.claim.Namespace + "/" + i.claim.Name
	try := func() error {
		selected, asked := i.claim.Annotations[volume.AnnSelectedNode]
		switch {
		case i.claim.Spec.VolumeName != "" || (asked && selected == node):
			p.markAsked(i)
			return nil
		case asked:
			return selectedNodeConflict(i.claim, selected, node)
		}
		claim, err := p.patchSelectedNode(ctx, i.claim, node)
		if err != nil {
			return err
		}
		i.claim = claim
		p.markAsked(i)
		ctxlog.From(ctx).Debug("wrote selected-node", logging.Claim(i.claim.Namespace, i.claim.Name),
			zap.String("node", node), zap.String("resourceVersion", claim.ResourceVersion))
		return nil
	}
	reread := func() (bool, error) {
		if err := p.refreshClaim(ctx, i); err != nil {
			return false, err
		}
		// Asked for by another replica, or bound by somebody: the wait will
		// look at it. For another node: try refuses.
		settled := i.claim.Spec.VolumeName != "" || i.claim.Annotations[volume.AnnSelectedNode] == node
		if settled {
			p.markAsked(i)
		}
		return settled, nil
	}
	return p.persist(ctx, instrument.Claims, func() string { return name }, try, reread)
}

// markAsked records that the API shows the item's claim on its way.
func (p *Prebinder) markAsked(i *item) {
	i.hold = nil // from here on the cache ends the reservation
	p.reservations.asked(i.claim)
}

func (p *Prebinder) patchSelectedNode(ctx context.Context, claim *v1.PersistentVolumeClaim, node string) (*v1.PersistentVolumeClaim, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": claim.ResourceVersion,
		"uid":             claim.UID,
		"annotations":     map[string]string{volume.AnnSelectedNode: node},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return p.patchClaim(ctx, claim, data)
}

func (p *Prebinder) patchClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, data []byte) (*v1.PersistentVolumeClaim, error) {
	now, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
	p.metrics.writes.Sent(instrument.Claims, err)
	return now, err
}

// refreshClaim reads the item's claim live, and tells what keeps it from being
// the one that was decided on.
func (p *Prebinder) refreshClaim(ctx context.Context, i *item) error {
	now, err := p.live().claim(ctx, i.claim.Namespace, i.claim.Name)
	if err != nil {
		return err
	}
	if problem := sameClaim(i.claim, now); problem != nil {
		return problem
	}
	i.claim = now
	return nil
}

// sameClaim tells what keeps the claim as it is now from being the one that
// was decided on.
func sameClaim(decided, now *v1.PersistentVolumeClaim) *fault.Error {
	switch {
	case now == nil:
		return fault.New(fault.ClaimNotFound, "%s: it was deleted", describe(decided))
	case now.UID != decided.UID:
		return fault.New(fault.ClaimReplaced, "%s: it was deleted and made anew (uid %s, was %s)", describe(decided), now.UID, decided.UID)
	}
	return alive(now)
}
