package volumes

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"
)

// podFacts are what is known of a pod's claims whatever the node: gathered once,
// for a plan on each of many nodes. They are not changed by that, and are safe
// for parallel use.
type podFacts struct {
	p       *Prebinder
	pod     *v1.Pod
	claims  []ClaimFacts
	queries []claimQuery
}

// claimQuery is what is asked of the free volumes for a claim.
type claimQuery struct {
	claim int // in claims
	*query
}

// gather reads what is known of the pod's claims. Volumes to choose from and
// capacities come from the caches always: they are too many to ask for.
func (p *Prebinder) gather(ctx context.Context, read *reader, pod *v1.Pod) (*podFacts, error) {
	facts := &podFacts{p: p, pod: pod, claims: claimNames(pod)}
	for i := range facts.claims {
		q, err := p.gatherClaim(ctx, read, pod, &facts.claims[i])
		if err != nil {
			return nil, err
		}
		if q != nil {
			facts.queries = append(facts.queries, claimQuery{i, q})
		}
	}
	return facts, nil
}

// gatherClaim returns what is asked of the free volumes, or nil.
func (p *Prebinder) gatherClaim(ctx context.Context, read *reader, pod *v1.Pod, facts *ClaimFacts) (_ *query, err error) {
	if facts.Claim, err = read.claim(ctx, pod.Namespace, facts.Name); err != nil || facts.Claim == nil {
		return nil, err
	}
	claim := facts.Claim
	if claim.Spec.VolumeName != "" {
		facts.Volume, err = read.volume(ctx, claim.Spec.VolumeName)
		return nil, err
	}
	className := volume.GetPersistentVolumeClaimClass(claim)
	if className == "" {
		return nil, nil
	}
	if facts.Class, err = read.class(ctx, className); err != nil || !facts.delayed() {
		return nil, err
	}
	q, err := p.gatherVolumes(facts)
	if err != nil {
		return nil, err
	}
	if facts.Driver, err = p.caches.CSIDrivers.Get(facts.Class.Provisioner); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading csidriver %s: %w", facts.Class.Provisioner, err)
	}
	return q, nil
}

// delayed tells whether the claim waits for its pod to be bound or provisioned.
func (c *ClaimFacts) delayed() bool {
	return c.Claim.Spec.VolumeName == "" && c.Class != nil && c.Class.VolumeBindingMode != nil &&
		*c.Class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// gatherVolumes finds what the claim could be bound to, but for the free volumes:
// what is asked of these, for each node, is returned, or nil. FindMatchingVolume does not ask for the access
// modes of a pre-bound volume; the PV controller does, and would never bind one
// that lacks any.
func (p *Prebinder) gatherVolumes(c *ClaimFacts) (*query, error) {
	claim, className := c.Claim, volume.GetPersistentVolumeClaimClass(c.Claim)
	// Asked first: a hold that goes between the two has been seen by the cache.
	c.PromisedVolume, c.PromisedNode = p.reservations.promised(claim.UID)
	prebound, err := p.caches.claimedVolumes(claim.Namespace, claim.Name)
	if err != nil {
		return nil, err
	}
	for _, pv := range prebound {
		if volume.IsVolumeBoundToClaim(pv, claim) && volume.GetPersistentVolumeClass(pv) == className && volume.CheckAccessModes(claim, pv) {
			c.Candidates = append(c.Candidates, pv)
		}
	}
	switch {
	case c.PromisedVolume != "":
		// A claim that pods share must not be promised two.
		if pv := p.caches.volume(c.PromisedVolume); isFree(pv) && volume.GetPersistentVolumeClass(pv) == className {
			c.Candidates = append(c.Candidates, pv)
		}
	case c.PromisedNode == "":
		c.Considered = p.caches.free.count(className)
		return newQuery(claim), nil
	}
	return nil, nil
}

// planOn plans the pod on the node. The error is [MakePlan]'s.
func (f *podFacts) planOn(node *v1.Node) (*Plan, error) {
	facts, err := f.on(node)
	if err != nil {
		return nil, err
	}
	return MakePlan(facts)
}

// on adds to the facts what is true on the node alone.
func (f *podFacts) on(node *v1.Node) (*Facts, error) {
	facts := &Facts{Pod: f.pod, Node: node, Claims: append([]ClaimFacts(nil), f.claims...)}
	for i := range facts.Claims {
		c := &facts.Claims[i]
		if c.Volume != nil && facts.CSINode == nil {
			var err error
			if facts.CSINode, err = f.p.caches.CSINodes.Get(node.Name); err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("reading csinode %s: %w", node.Name, err)
			}
		}
		c.findRoom(f.p.caches.room, node)
	}
	for _, q := range f.queries {
		facts.Claims[q.claim].Free = f.p.caches.free.find(q.query, node, len(f.queries))
	}
	return facts, nil
}
