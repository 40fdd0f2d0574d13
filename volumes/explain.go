package volumes

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
)

// Explanation is what a pod's claims are, and what a bind call would do about them
// on nodes. Its objects are the caches' own and must not be changed.
type Explanation struct {
	Claims []ExplainedClaim // in the pod's order, each once
	Nodes  []ExplainedNode  // in the order asked for
}

// ExplainedClaim is what is true of a claim whatever the node.
type ExplainedClaim struct {
	Name      string // in the pod's namespace
	Ephemeral bool   // made for a generic ephemeral volume

	State ClaimState
	// WaitsFor is what happens next, and by whom, as in "the PV controller to ...";
	// "" if the claim waits for nothing.
	WaitsFor string

	// Code and Cause say what keeps every pod like this one from using the claim,
	// whatever the node; "" is nothing.
	Code  fault.Code
	Cause string

	// Nil objects do not exist.
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume // that spec.volumeName names
	Class  *storagev1.StorageClass
	// Candidates are the volumes that the claim could be bound to; nil if it does not
	// choose (any more). They are judged on the node, if one is asked about.
	Candidates *Candidates
}

// ExplainedNode is what becomes of each claim on a node.
type ExplainedNode struct {
	Name   string
	Claims []Outcome // as in Explanation.Claims
}

// Fits tells whether there is a plan for the node.
func (n *ExplainedNode) Fits() bool { return n.Refused() == 0 }

// Refused counts the claims that keep the pod off the node.
func (n *ExplainedNode) Refused() int {
	refused := 0
	for i := range n.Claims {
		if n.Claims[i].Kind == OutcomeRefused {
			refused++
		}
	}
	return refused
}

// OutcomeKind is what a bind call would do about a claim on a node.
type OutcomeKind string

const (
	// OutcomeBound does nothing: the claim is bound, and the node reaches its volume.
	OutcomeBound OutcomeKind = "bound"
	// OutcomeBinding waits for the PV controller, which is to finish the binding.
	OutcomeBinding OutcomeKind = "binding"
	// OutcomeBind binds the claim to a volume that exists.
	OutcomeBind OutcomeKind = "bind"
	// OutcomeProvision has a volume made for the node.
	OutcomeProvision OutcomeKind = "provision"
	// OutcomeRefused refuses the node.
	OutcomeRefused OutcomeKind = "refused"
)

// Outcome is what becomes of a claim on a node.
type Outcome struct {
	Kind OutcomeKind
	// Volume of the first three kinds, and of a refusal that is about one.
	Volume *v1.PersistentVolume
	// Provisioner of the claim's class; provisioning only.
	Provisioner string

	// Of a refusal: its code; why in kube-scheduler's words, which are the same on many
	// nodes; why in prebind's, without the claim's name.
	Code          fault.Code
	Reason, Cause string
	// Room is the most that is reported for the node, if that is too little. Nil:
	// nothing is reported there.
	Room *storagev1.CSIStorageCapacity
}

// Explain tells, from the caches alone, what the pod's claims are and what becomes
// of them on each of the nodes. It decides as [Prebinder.Plan] and [Prebinder.Filter]
// do, by the same code: the node fits if and only if there is a plan for it.
func (p *Prebinder) Explain(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (*Explanation, error) {
	facts, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Claims: make([]ExplainedClaim, len(facts.claims)), Nodes: make([]ExplainedNode, len(nodes))}
	plans := make([]*Plan, len(nodes))
	err = inParallel(len(nodes), func(from, to int) error {
		for i := from; i < to; i++ {
			var err error
			if e.Nodes[i], plans[i], err = facts.explainOn(nodes[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var node *v1.Node
	plan := &Plan{}
	if len(nodes) == 1 {
		node, plan = nodes[0], plans[0]
	}
	for i := range facts.claims {
		if e.Claims[i], err = facts.explainClaim(&facts.claims[i], node, plan); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (f *podFacts) explainClaim(c *ClaimFacts, node *v1.Node, plan *Plan) (ExplainedClaim, error) {
	e := ExplainedClaim{Name: c.Name, Ephemeral: c.Ephemeral, Claim: c.Claim, Volume: c.Volume, Class: c.Class}
	e.State, e.WaitsFor = c.state(f.pod)
	if unusable := c.unusable(f.pod); unusable != nil {
		e.Code, e.Cause = unusable.Code, f.cause(problem{c, unusable})
	}
	if c.Claim == nil {
		return e, nil
	}
	if e.Class == nil { // a plan does not need that of a bound claim
		e.Class, _ = f.p.caches.Classes.Get(volume.GetPersistentVolumeClaimClass(c.Claim)) // or there is none
	}
	var err error
	if c.choosing(f.pod) {
		e.Candidates, err = f.candidates(c, node, plan)
	}
	return e, err
}

// explainOn makes a plan and sorts it by claim. With problems the plan is not whole.
func (f *podFacts) explainOn(node *v1.Node) (ExplainedNode, *Plan, error) {
	explained := ExplainedNode{Name: node.Name, Claims: make([]Outcome, len(f.claims))}
	facts, err := f.on(node)
	if err != nil {
		return explained, nil, err
	}
	plan, problems := makePlan(facts)
	outcomes := make(map[string]Outcome, len(f.claims))
	for kind, bindings := range map[OutcomeKind][]Binding{
		OutcomeBound: plan.Bound, OutcomeBinding: plan.Completing, OutcomeBind: plan.Static, OutcomeProvision: plan.Dynamic,
	} {
		for _, b := range bindings {
			outcomes[b.Claim.Name] = Outcome{Kind: kind, Volume: b.Volume, Provisioner: b.Provisioner}
		}
	}
	for _, problem := range problems {
		outcomes[problem.claim.Name] = f.refusal(problem, node)
	}
	for i := range f.claims {
		explained.Claims[i] = outcomes[f.claims[i].Name]
	}
	return explained, plan, nil
}

func (f *podFacts) refusal(p problem, node *v1.Node) Outcome {
	o := Outcome{Kind: OutcomeRefused, Code: p.Code, Reason: p.reason(), Cause: f.cause(p), Volume: p.claim.Volume}
	if p.Code == fault.NodeConflict && o.Volume == nil {
		o.Volume = preboundElsewhere(p.claim, node)
	}
	if p.Code == fault.NoCapacity {
		o.Room = f.p.caches.room.find(p.claim.Class.Name, resource.Quantity{}, node)
	}
	return o
}

// cause is the problem's text without the claim's name in front.
func (f *podFacts) cause(p problem) string {
	name := "claim " + f.pod.Namespace + "/" + p.claim.Name
	if p.claim.Claim != nil {
		name = describe(p.claim.Claim)
	}
	return strings.TrimPrefix(p.Message, name+": ")
}

// LastSeen is when the event was last seen, in whichever field its recorder uses.
func LastSeen(event *v1.Event) time.Time { return seen(event) }
