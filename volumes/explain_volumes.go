package volumes

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
)

// maxNearest is how many refused volumes are told by name.
const maxNearest = 10

// Refusal is one thing that is wrong with a volume for a claim.
type Refusal string

// The refusals, in the order in which a volume is counted under one of them.
const (
	RefusedClass      Refusal = "of another class"
	RefusedNode       Refusal = "not reachable from the node"
	RefusedClaimed    Refusal = "claimed by another claim"
	RefusedReserved   Refusal = "reserved for another claim"
	RefusedDeleted    Refusal = "being deleted"
	RefusedPhase      Refusal = "not Available"
	RefusedMode       Refusal = "of another volume mode"
	RefusedAccess     Refusal = "lacking an access mode"
	RefusedAttributes Refusal = "of another attributes class"
	RefusedSelector   Refusal = "not matched by the claim's selector"
	RefusedSize       Refusal = "too small"
	RefusedTaken      Refusal = "taken by another claim of the pod"
	RefusedPreBound   Refusal = "passed over: the claim has a volume of its own"
	RefusedOther      Refusal = "refused for another reason"
)

// Candidates are the volumes that were looked at for a claim.
type Candidates struct {
	// Considered counts all volumes, Fitting those that the claim may have.
	Considered, Fitting int
	// Fit are the first of these, the smallest first; at most 10.
	Fit []*v1.PersistentVolume
	// Counts has each of the other volumes once, under the first thing that is wrong
	// with it; first those that have got furthest.
	Counts []RefusalCount
	// Nearest are those with the fewest things wrong, then as in Counts, then by name;
	// at most 10.
	Nearest []RefusedVolume
}

// RefusalCount is how many volumes were refused, first of all, for a reason.
type RefusalCount struct {
	Why   Refusal
	Count int
}

// RefusedVolume is a volume with all that is wrong with it.
type RefusedVolume struct {
	Volume *v1.PersistentVolume
	Why    []Refusal
	// Details has a text for each, such as "too small: it has 1Gi, the claim asks for 5Gi".
	Details []string
}

// volumeJudge tells what is wrong with volumes for a claim, in the terms of the
// plan, whose helpers it uses. Where it finds nothing, the plan's judge has the
// last word.
type volumeJudge struct {
	*ClaimFacts
	class    string
	query    *query // nil: the claim's selector cannot be parsed
	node     *v1.Node
	prebound bool // a volume is pre-bound to the claim, and good but for the node
	// elsewhere is one that the node cannot reach.
	elsewhere *v1.PersistentVolume
	held      map[string]struct{} // reserved
	taken     map[string]string   // volume -> other claim of the pod
}

// candidates judges all cached volumes for the claim, on the node if it is not nil.
// plan is the pod's.
func (f *podFacts) candidates(c *ClaimFacts, node *v1.Node, plan *Plan) (*Candidates, error) {
	j := &volumeJudge{
		ClaimFacts: c, class: volume.GetPersistentVolumeClaimClass(c.Claim), query: newQuery(c.Claim), node: node,
		held: f.p.caches.free.reserved(), taken: map[string]string{},
	}
	j.prebound = slices.ContainsFunc(c.Candidates, j.goodButForNode)
	if node != nil {
		j.elsewhere = preboundElsewhere(c, node)
	}
	for _, b := range plan.Static {
		if b.Claim.Name != c.Name {
			j.taken[b.Volume.Name] = b.Claim.Name
		}
	}
	pvs, err := f.p.caches.allVolumes()
	if err != nil {
		return nil, err
	}
	return j.sort(pvs), nil
}

// sort judges the volumes.
func (j *volumeJudge) sort(pvs []*v1.PersistentVolume) *Candidates {
	found := &Candidates{Considered: len(pvs)}
	counts := map[Refusal]int{}
	var refused []RefusedVolume
	for _, pv := range pvs {
		why := j.against(pv)
		if len(why) == 0 {
			found.Fit = append(found.Fit, pv)
			continue
		}
		counts[why[0]]++
		refused = append(refused, RefusedVolume{Volume: pv, Why: why})
	}
	found.Fitting = len(found.Fit)
	slices.SortFunc(found.Fit, func(a, b *v1.PersistentVolume) int {
		return cmp.Or(a.Spec.Capacity.Storage().Cmp(*b.Spec.Capacity.Storage()), cmp.Compare(a.Name, b.Name))
	})
	found.Fit = slices.Clone(found.Fit[:min(maxNearest, len(found.Fit))])
	order := refusals()
	slices.SortFunc(refused, func(a, b RefusedVolume) int {
		return cmp.Or(
			cmp.Compare(len(a.Why), len(b.Why)), cmp.Compare(slices.Index(order, b.Why[0]), slices.Index(order, a.Why[0])),
			cmp.Compare(a.Volume.Name, b.Volume.Name),
		)
	})
	found.Nearest = slices.Clone(refused[:min(maxNearest, len(refused))])
	for i := range found.Nearest {
		for _, why := range found.Nearest[i].Why {
			found.Nearest[i].Details = append(found.Nearest[i].Details, j.detail(found.Nearest[i].Volume, why))
		}
	}
	for _, why := range slices.Backward(order) {
		if counts[why] > 0 {
			found.Counts = append(found.Counts, RefusalCount{why, counts[why]})
		}
	}
	return found
}

func refusals() []Refusal {
	return []Refusal{
		RefusedClass, RefusedNode, RefusedClaimed, RefusedReserved, RefusedDeleted, RefusedPhase, RefusedMode, RefusedAccess,
		RefusedAttributes, RefusedSelector, RefusedSize, RefusedTaken, RefusedPreBound, RefusedOther,
	}
}

// against lists what is wrong with the volume. A pre-bound one need be neither
// Available nor selected.
func (j *volumeJudge) against(pv *v1.PersistentVolume) []Refusal {
	own, free := volume.IsVolumeBoundToClaim(pv, j.Claim), pv.Spec.ClaimRef == nil
	_, held := j.held[pv.Name]
	selected := own || j.query == nil || j.query.selector == nil || j.query.selector.Matches(labels.Set(pv.Labels))
	size, wants := pv.Spec.Capacity[v1.ResourceStorage], j.Claim.Spec.Resources.Requests[v1.ResourceStorage]
	var found []Refusal
	check := func(why Refusal, wrong bool) {
		if wrong {
			found = append(found, why)
		}
	}
	check(RefusedClass, volume.GetPersistentVolumeClass(pv) != j.class)
	check(RefusedNode, j.node != nil && volume.CheckNodeAffinity(pv, j.node.Labels) != nil)
	check(RefusedClaimed, !own && !free)
	check(RefusedReserved, !own && held && pv.Name != j.PromisedVolume)
	check(RefusedDeleted, pv.DeletionTimestamp != nil)
	check(RefusedPhase, free && pv.Status.Phase != v1.VolumeAvailable)
	check(RefusedMode, volume.CheckVolumeModeMismatches(&j.Claim.Spec, &pv.Spec))
	check(RefusedAccess, !volume.CheckAccessModes(j.Claim, pv))
	check(RefusedAttributes, attributesOf(pv.Spec.VolumeAttributesClassName) != attributesOf(j.Claim.Spec.VolumeAttributesClassName))
	check(RefusedSelector, j.query == nil || !selected)
	check(RefusedSize, size.Cmp(wants) < 0)
	check(RefusedTaken, j.taken[pv.Name] != "")
	check(RefusedPreBound, j.passesOver(pv, own))
	if len(found) == 0 && !j.accepts(pv) {
		found = append(found, RefusedOther)
	}
	return found
}

// passesOver tells whether the claim has another volume of its own, which it gets or
// for which it refuses the node.
func (j *volumeJudge) passesOver(pv *v1.PersistentVolume, own bool) bool {
	if j.elsewhere != nil {
		return pv.Name != j.elsewhere.Name
	}
	return !own && (j.prebound || (j.PromisedVolume != "" && pv.Name != j.PromisedVolume))
}

// accepts asks the judge of plans.
func (j *volumeJudge) accepts(pv *v1.PersistentVolume) bool {
	match, err := volume.FindMatchingVolume(j.Claim, []*v1.PersistentVolume{pv}, j.node, nil, false, true)
	return err == nil && match != nil
}

// goodButForNode tells whether the volume is pre-bound to the claim and good for it
// on nodes that reach it.
func (j *volumeJudge) goodButForNode(pv *v1.PersistentVolume) bool {
	if !volume.IsVolumeBoundToClaim(pv, j.Claim) {
		return false
	}
	match, err := volume.FindMatchingVolume(j.Claim, []*v1.PersistentVolume{pv}, nil, nil, true, true)
	return err == nil && match != nil
}

// reserved returns the names of the volumes that are held.
func (x *freeIndex) reserved() map[string]struct{} {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.held)
}
