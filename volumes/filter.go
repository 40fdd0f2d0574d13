package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/fault"
)

// More words for kube-scheduler's event, where it has none of its own.
const (
	reasonUnknownNode  = "node(s) were not known to prebind yet"
	reasonSelectedNode = "node(s) weren't the one that a volume is being provisioned for"
)

// Node is a node that the scheduler asks about.
type Node struct {
	Name string
	// Labels are those that the scheduler sees. They are used if Sent is true,
	// else the cache's are.
	Labels map[string]string
	Sent   bool
}

// Filter tells, for each of the nodes, why the pod's claims keep the pod off
// it, in kube-scheduler's words, or "" if there is a plan for it. Like [Prebinder.Plan] it
// decides from the caches alone and counts what is reserved. It is called in the
// scheduler's only loop, so nothing is asked of the API server, and a node that
// is in no cache is refused. It may wait a moment: for the bind call of the pod
// before, see offers, and for the watch when no node is left, see filterGrace.
// Nothing that it says against a node can be helped by preempting pods, which
// frees no volume. The error is a fault, also that the nodes are not all and
// others will do, see sendBack.
func (p *Prebinder) Filter(ctx context.Context, pod *v1.Pod, nodes []Node) ([]string, error) {
	reasons, err := p.judge(ctx, pod, nodes)
	if err != nil || len(nodes) == 0 || slices.Contains(reasons, "") {
		return reasons, err
	}
	if err := p.sendBack(ctx, pod, nodes); err != nil {
		return nil, err
	}
	if !p.graces.take() {
		return reasons, nil
	}
	return p.awaitNode(ctx, pod, nodes, reasons)
}

// judge is Filter that does not wait for the watch.
func (p *Prebinder) judge(ctx context.Context, pod *v1.Pod, nodes []Node) ([]string, error) {
	facts, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err == nil && facts.chooses() && p.offers.await(ctx, pod.UID) {
		facts, err = p.gather(ctx, &reader{caches: p.caches}, pod)
	}
	if err != nil {
		return nil, err
	}
	reasons, err := facts.judge(nodes)
	if err == nil && facts.chooses() && slices.Contains(reasons, "") {
		p.offers.made(pod.UID)
	}
	return reasons, err
}

// chooses tells whether any claim of the pod may take one of several volumes.
func (f *podFacts) chooses() bool {
	return slices.ContainsFunc(f.queries, func(q claimQuery) bool { return f.claims[q.claim].Considered > 0 })
}

// judge tells, for each node, why there is no plan for it, or "".
func (f *podFacts) judge(nodes []Node) ([]string, error) {
	reasons := make([]string, len(nodes))
	if why := f.hopeless(); why != "" {
		for i := range reasons {
			reasons[i] = why
		}
		return reasons, nil
	}
	if quick := f.quick(); quick != nil {
		return reasons, quick.each(nodes, func(i int, near nearest) error {
			reasons[i] = quick.against(near)
			return nil
		})
	}
	return reasons, inParallel(len(nodes), func(from, to int) error {
		for i := from; i < to; i++ {
			node := f.p.caches.free.node(&nodes[i])
			if node == nil {
				reasons[i] = reasonUnknownNode
				continue
			}
			var err error
			if reasons[i], err = f.against(node); err != nil {
				return err
			}
		}
		return nil
	})
}

// hopeless tells what is against the pod whatever the node, or "".
func (f *podFacts) hopeless() string {
	var problems []problem
	for i := range f.claims {
		if err := f.claims[i].unusable(f.pod); err != nil {
			problems = append(problems, problem{&f.claims[i], err})
		}
	}
	return reasonsOf(problems)
}

// against tells why there is no plan for the node, or "".
func (f *podFacts) against(node *v1.Node) (string, error) {
	facts, err := f.on(node)
	if err != nil {
		return "", err
	}
	_, problems := makePlan(facts)
	return reasonsOf(problems), nil
}

// reasonsOf says each different reason once. kube-scheduler counts equal texts,
// so that the order is fixed, and no node is named.
func reasonsOf(problems []problem) string {
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return problems[0].reason()
	}
	reasons := make([]string, 0, len(problems))
	for _, p := range problems {
		reasons = append(reasons, p.reason())
	}
	return joinReasons(reasons)
}

func joinReasons(reasons []string) string {
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), ", ")
}

// reason is the problem in kube-scheduler's words.
func (p problem) reason() string {
	switch p.Code {
	case fault.ClaimNotFound:
		if p.claim.Ephemeral {
			return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", p.claim.Name)
		}
		return fmt.Sprintf("persistentvolumeclaim %q not found", p.claim.Name)
	case fault.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", p.claim.Name, p.claim.Claim.Spec.VolumeName)
	case fault.ClaimTerminating:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", p.claim.Name)
	case fault.ClaimNotOwned:
		return p.Err.Error()
	case fault.ClaimUnbound:
		return reasonUnbound
	case fault.VolumeNotFound:
		return reasonVolumeNotFound
	case fault.VolumeMismatch:
		return fmt.Sprintf("persistentvolumeclaim %q bound to persistentvolume %q of another claim", p.claim.Name, p.claim.Claim.Spec.VolumeName)
	case fault.NodeConflict:
		return reasonNodeConflict
	case fault.SelectedNodeConflict:
		return reasonSelectedNode
	case fault.NoCapacity:
		return reasonNoCapacity
	case fault.NoVolume:
		return reasonNoVolume
	default:
		return p.Error.Error()
	}
}
