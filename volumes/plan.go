package volumes

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
)

// Kube-scheduler's words, for the cases that are the same.
const (
	reasonNoVolume       = "node(s) didn't find available persistent volumes to bind"
	reasonNodeConflict   = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoCapacity     = "node(s) did not have enough free storage"
	reasonVolumeNotFound = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	reasonUnbound        = "pod has unbound immediate PersistentVolumeClaims"
)

// Plan is what has to happen so that a pod's claims are bound and usable on
// one node. It is a value: making one has no effect.
type Plan struct {
	// Bound need nothing.
	Bound []Binding
	// Completing are claimed by their volume; the PV controller is about to
	// finish them, nothing is to be written.
	Completing []Binding
	// Static are to be bound to the volume given.
	Static []Binding
	// Dynamic are to be provisioned on the node; their Volume is nil.
	Dynamic []Binding
}

// Binding is a claim with its volume.
type Binding struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
	// Provisioner of the claim's class, for messages.
	Provisioner string
}

// MakePlan decides what each claim of the pod needs on the node. It is pure,
// and safe to call in parallel. When it is impossible the error has one fault
// per claim that stands in the way (all claims are looked at), joined to one.
func MakePlan(facts *Facts) (*Plan, error) {
	plan, problems := makePlan(facts)
	if len(problems) > 0 {
		return nil, joinProblems(problems)
	}
	return plan, nil
}

// problem is why a claim keeps its pod off the node.
type problem struct {
	claim *ClaimFacts
	*fault.Error
}

// makePlan is MakePlan with the problems apart. With problems the plan is not
// whole.
func makePlan(facts *Facts) (*Plan, []problem) {
	plan, problems := &Plan{}, []problem(nil)
	var delayed []*ClaimFacts
	for i := range facts.Claims {
		claim := &facts.Claims[i]
		wait, err := plan.classify(facts, claim)
		switch {
		case err != nil:
			problems = append(problems, problem{claim, err})
		case wait:
			delayed = append(delayed, claim)
		}
	}
	// Smallest first, so that a small claim does not take a large volume that
	// another claim of the same pod needs.
	slices.SortStableFunc(delayed, func(a, b *ClaimFacts) int {
		x, y := a.Claim.Spec.Resources.Requests[v1.ResourceStorage], b.Claim.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
	chosen := map[string]*v1.PersistentVolume{}
	for _, claim := range delayed {
		if err := plan.place(facts.Node, claim, chosen); err != nil {
			problems = append(problems, problem{claim, err})
		}
	}
	return plan, problems
}

// classify sorts a claim in, or tells that it is a delayed one, or what is
// wrong with it.
func (p *Plan) classify(facts *Facts, c *ClaimFacts) (delayed bool, problem *fault.Error) {
	if problem := c.unusable(facts.Pod); problem != nil {
		return false, problem
	}
	if c.Claim.Spec.VolumeName == "" {
		return true, nil
	}
	if err := reachable(c.Volume, facts.Node, facts.CSINode); err != nil {
		return false, nodeConflict(c.Claim, c.Volume, facts.Node, err)
	}
	binding := Binding{Claim: c.Claim, Volume: c.Volume}
	if completed(c.Claim) {
		p.Bound = append(p.Bound, binding)
	} else {
		p.Completing = append(p.Completing, binding)
	}
	return false, nil
}

// unusable tells what keeps the pod from using the claim, whatever the node.
func (c *ClaimFacts) unusable(pod *v1.Pod) *fault.Error {
	if c.Claim == nil {
		if c.Ephemeral {
			return fault.New(fault.ClaimNotFound, "claim %s/%s: waiting for ephemeral volume controller to create the persistentvolumeclaim %q", pod.Namespace, c.Name, c.Name)
		}
		return fault.New(fault.ClaimNotFound, "claim %s/%s: persistentvolumeclaim %q not found", pod.Namespace, c.Name, c.Name)
	}
	if problem := alive(c.Claim); problem != nil {
		return problem
	}
	if c.Ephemeral {
		if err := ephemeral.VolumeIsForPod(pod, c.Claim); err != nil {
			return fault.New(fault.ClaimNotOwned, "%s: %w", describe(c.Claim), err)
		}
	}
	if c.Claim.Spec.VolumeName != "" {
		return c.unusableVolume()
	}
	if !c.delayed() {
		return fault.New(fault.ClaimUnbound, "%s: %s: %s", describe(c.Claim), reasonUnbound, whyImmediate(c))
	}
	return nil
}

// unusableVolume tells what is wrong with the volume that the claim names.
func (c *ClaimFacts) unusableVolume() *fault.Error {
	pv, bound := c.Volume, completed(c.Claim)
	switch {
	case pv == nil && bound:
		return fault.New(fault.VolumeNotFound, "%s: volume %s: %s", describe(c.Claim), c.Claim.Spec.VolumeName, reasonVolumeNotFound)
	case pv == nil || (!bound && !owns(c.Claim, pv)):
		return fault.New(fault.ClaimUnbound, "%s: %s: it asks for volume %s, which the PV controller has not bound to it", describe(c.Claim), reasonUnbound, c.Claim.Spec.VolumeName)
	case !owns(c.Claim, pv):
		return fault.New(fault.VolumeMismatch, "%s: volume %s is claimed by %s", describe(c.Claim), pv.Name, claimedBy(pv))
	}
	return nil
}

// place finds a volume, or a provisioner, for a delayed claim.
func (p *Plan) place(node *v1.Node, c *ClaimFacts, chosen map[string]*v1.PersistentVolume) *fault.Error {
	selected, asked := c.Claim.Annotations[volume.AnnSelectedNode]
	if asked && selected != node.Name {
		return selectedNodeConflict(c.Claim, selected, node.Name)
	}
	if c.PromisedNode != "" && c.PromisedNode != node.Name {
		return fault.New(fault.SelectedNodeConflict, "%s: another pod that uses it is about to have it provisioned for node %s, not %s", describe(c.Claim), c.PromisedNode, node.Name)
	}
	asked = asked || c.PromisedNode != ""
	if pv := preboundElsewhere(c, node); pv != nil {
		return fault.New(fault.NodeConflict, "%s: it is pre-bound to volume %s: %s: node %s", describe(c.Claim), pv.Name, reasonNodeConflict, node.Name)
	}
	if !asked {
		pv, err := c.choose(node, chosen)
		if err != nil {
			return fault.New(fault.NoVolume, "%s: node %s: %w", describe(c.Claim), node.Name, err)
		}
		if pv != nil {
			chosen[pv.Name] = pv
			p.Static = append(p.Static, Binding{Claim: c.Claim, Volume: pv, Provisioner: c.Class.Provisioner})
			return nil
		}
	}
	if c.PromisedVolume != "" {
		return fault.New(fault.NodeConflict, "%s: volume %s is about to be bound to it for another pod: %s: node %s", describe(c.Claim), c.PromisedVolume, reasonNodeConflict, node.Name)
	}
	if problem := provisionable(c, node, asked); problem != nil {
		return problem
	}
	p.Dynamic = append(p.Dynamic, Binding{Claim: c.Claim, Provisioner: c.Class.Provisioner})
	return nil
}

// choose returns the volume that the claim gets on the node, or nil. Excluded are
// those that it must not get.
func (c *ClaimFacts) choose(node *v1.Node, excluded map[string]*v1.PersistentVolume) (*v1.PersistentVolume, error) {
	// What is pre-bound to the claim goes before all that is free. Where there is
	// nothing at all, it may still have a word on the claim.
	if len(c.Candidates) > 0 || len(c.Free) == 0 {
		pv, err := volume.FindMatchingVolume(c.Claim, c.Candidates, node, excluded, true, true)
		if pv != nil || err != nil {
			return pv, err
		}
	}
	for _, pv := range c.Free {
		if excluded[pv.Name] == nil {
			return pv, nil
		}
	}
	return nil, nil
}

// considered is how many volumes could have been chosen, had they fit.
func (c *ClaimFacts) considered() int { return len(c.Candidates) + c.Considered }

// provisioned tells whether the class has a provisioner.
func (c *ClaimFacts) provisioned() bool {
	return c.Class.Provisioner != "" && c.Class.Provisioner != volume.NotSupportedProvisioner
}

// provisionable tells what keeps the class from provisioning the claim for
// the node. Once the provisioner was asked, capacity is its own business: the
// volume in the making may be what has used it up.
func provisionable(c *ClaimFacts, node *v1.Node, asked bool) *fault.Error {
	name := describe(c.Claim)
	switch {
	case !c.provisioned():
		return fault.New(fault.NoVolume, "%s: node %s: %s (%d volumes considered, class provisions none)", name, node.Name, reasonNoVolume, c.considered())
	case !topologyAllowed(c.Class.AllowedTopologies, node):
		return fault.New(fault.NoVolume, "%s: node %s: %s (%d volumes considered, class does not provision there: allowedTopologies)", name, node.Name, reasonNoVolume, c.considered())
	case !asked && !capacitySuffices(c):
		return fault.New(fault.NoCapacity, "%s: node %s: %s (driver %s)", name, node.Name, reasonNoCapacity, c.Class.Provisioner)
	}
	return nil
}

// preboundElsewhere returns a volume that is pre-bound to the claim, and good
// for it but for the node. The PV controller will bind the claim to it
// whatever we ask for; kube-scheduler would have another one provisioned.
func preboundElsewhere(c *ClaimFacts, node *v1.Node) *v1.PersistentVolume {
	for _, pv := range c.Candidates {
		if !volume.IsVolumeBoundToClaim(pv, c.Claim) {
			continue
		}
		// Without a node the helper judges everything but the node.
		good, err := volume.FindMatchingVolume(c.Claim, []*v1.PersistentVolume{pv}, nil, nil, true, true)
		if err == nil && good != nil && volume.CheckNodeAffinity(pv, node.Labels) != nil {
			return pv
		}
	}
	return nil
}

// alive tells what makes the claim unusable whatever else is true of it.
func alive(claim *v1.PersistentVolumeClaim) *fault.Error {
	switch {
	case claim.Status.Phase == v1.ClaimLost:
		return fault.New(fault.ClaimLost, "%s: bound to non-existent persistentvolume %q", describe(claim), claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fault.New(fault.ClaimTerminating, "%s: it is being deleted", describe(claim))
	}
	return nil
}

func nodeConflict(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, node *v1.Node, err error) *fault.Error {
	return fault.New(fault.NodeConflict, "%s: volume %s: %s: node %s: %w", describe(claim), pv.Name, reasonNodeConflict, node.Name, err)
}

func selectedNodeConflict(claim *v1.PersistentVolumeClaim, selected, node string) *fault.Error {
	return fault.New(fault.SelectedNodeConflict, "%s: it is being provisioned for node %s, not %s: only the provisioner may give it back", describe(claim), selected, node)
}

// whyImmediate says why an unbound claim is not prebind's to bind.
func whyImmediate(c *ClaimFacts) string {
	className := volume.GetPersistentVolumeClaimClass(c.Claim)
	switch {
	case className == "":
		return "it has no class, so the PV controller must bind it"
	case c.Class == nil:
		return fmt.Sprintf("storageclass %q not found", className)
	default:
		return "its class binds immediately: the PV controller or the provisioner must bind it first"
	}
}

func claimedBy(pv *v1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return "no claim"
	}
	return fmt.Sprintf("claim %s/%s (uid %s)", ref.Namespace, ref.Name, ref.UID)
}

// describe names a claim for people: "claim shop/data-0 (class fast)".
func describe(claim *v1.PersistentVolumeClaim) string {
	name := "claim " + claim.Namespace + "/" + claim.Name
	if class := volume.GetPersistentVolumeClaimClass(claim); class != "" {
		name += " (class " + class + ")"
	}
	return name
}

// joinProblems makes one fault of many; the first one's code leads.
func joinProblems(problems []problem) *fault.Error {
	if len(problems) == 1 {
		return problems[0].Error
	}
	texts := make([]string, 0, len(problems))
	texts = append(texts, problems[0].Message)
	for _, problem := range problems[1:] {
		texts = append(texts, problem.Error.Error())
	}
	return fault.New(problems[0].Code, "%s", strings.Join(texts, "; "))
}
