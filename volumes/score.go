package volumes

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
)

// MaxScore is the best score of a node, as kube-scheduler has it for extenders.
const MaxScore = 10

// Score returns, for each of the nodes, how well the pod's claims fit there, from
// 0 to [MaxScore]; 0 where there is no plan. The claims are weighed as by
// kube-scheduler's own plugin with its default shape: the emptier the storage is left
// the better, the mean of all classes; of static volumes if there are any, else
// of the capacity that drivers report. Like Filter it decides from the caches.
func (p *Prebinder) Score(ctx context.Context, pod *v1.Pod, nodes []Node) ([]int64, error) {
	facts, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err != nil {
		return nil, err
	}
	scores := make([]int64, len(nodes))
	if !facts.scored() {
		return scores, nil
	}
	if quick := facts.quick(); quick != nil {
		return scores, quick.each(nodes, func(i int, near nearest) (err error) {
			scores[i], err = quick.score(near)
			return err
		})
	}
	return scores, inParallel(len(nodes), func(from, to int) error {
		for i := from; i < to; i++ {
			var err error
			if scores[i], err = facts.score(p.caches.free.node(&nodes[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// score returns 0 if there is no plan for the node, or no node.
func (f *podFacts) score(node *v1.Node) (int64, error) {
	if node == nil {
		return 0, nil
	}
	facts, err := f.on(node)
	if err != nil {
		return 0, err
	}
	plan, problems := makePlan(facts)
	if len(problems) > 0 {
		return 0, nil
	}
	return scale(score(facts, plan)), nil
}

// scored tells whether any claim can make a difference: bound ones do not.
func (f *podFacts) scored() bool {
	for i := range f.claims {
		if c := &f.claims[i]; c.Claim != nil && c.delayed() {
			return len(f.hopeless()) == 0
		}
	}
	return false
}

// storage is what is asked of a class, and how much there is.
type storage struct{ requested, capacity int64 }

// score is kube-scheduler's: 0 to 100.
// Source: pkg/scheduler/framework/plugins/volumebinding, Score and buildScorerFunction.
func score(facts *Facts, plan *Plan) int64 {
	classes := map[string]storage{}
	for _, b := range plan.Static {
		s := classes[b.Volume.Spec.StorageClassName]
		s.requested += bytesOf(b.Claim.Spec.Resources.Requests)
		s.capacity += bytesOf(b.Volume.Spec.Capacity)
		classes[b.Volume.Spec.StorageClassName] = s
	}
	if len(plan.Static) == 0 {
		for i := range facts.Claims {
			c := &facts.Claims[i]
			if _, sized := c.Claim.Spec.Resources.Requests[v1.ResourceStorage]; !sized || c.Room == nil || !provisions(plan, c) {
				continue
			}
			name := c.Class.Name
			if c.Claim.Spec.StorageClassName != nil { // or the class is in an annotation alone
				name = *c.Claim.Spec.StorageClassName
			}
			class := classes[name]
			class.requested += bytesOf(c.Claim.Spec.Resources.Requests)
			class.capacity = 0
			if c.Room.Capacity != nil { // a driver may report the largest volume alone
				class.capacity = c.Room.Capacity.Value()
			}
			classes[name] = class
		}
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, class := range classes {
		sum += 100 - class.used()
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}

// used is the share that is taken, in percent.
func (s storage) used() int64 {
	switch {
	case s.capacity == 0 || s.requested > s.capacity:
		return 100
	case s.requested > math.MaxInt64/100: // where kube-scheduler's own sum overflows
		return int64(float64(s.requested) / float64(s.capacity) * 100)
	default:
		return s.requested * 100 / s.capacity
	}
}

// scale makes a score of an extender of one of kube-scheduler's plugins.
func scale(score int64) int64 { return (score*MaxScore + 50) / 100 }

func bytesOf(list v1.ResourceList) int64 {
	quantity := list[v1.ResourceStorage]
	return quantity.Value()
}

// provisions tells whether the plan has the claim provisioned.
func provisions(plan *Plan, c *ClaimFacts) bool {
	for _, b := range plan.Dynamic {
		if b.Claim == c.Claim {
			return true
		}
	}
	return false
}
