package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/fault"
)

// More words for kube-scheduler's event, where it has none of its own.
const (
	reasonUnknownNode  = "node(s) were not known to prebind yet"
	reasonSelectedNode = "node(s) weren't the one that a volume is being provisioned for"
	// reasonSeparator stands between reasons, and in none that is about a node.
	reasonSeparator = ", "
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
	found, err := p.judge(ctx, pod, nodes)
	if err != nil {
		return nil, err
	}
	if len(nodes) > 0 && !found.passes() {
		if err := p.sendBack(ctx, pod, nodes); err != nil {
			p.metrics.filtered(found)
			return nil, err
		}
		if p.graces.take() {
			if found, err = p.awaitNode(ctx, pod, nodes, found); err != nil {
				return nil, err
			}
		}
	}
	p.metrics.filtered(found)
	return found.reasons, nil
}

// judgement is what is against nodes.
type judgement struct {
	reasons []string     // for each node, or ""
	pod     []fault.Code // what is against the pod on all of them
}

// passes tells whether there is nothing against one of the nodes.
func (v judgement) passes() bool { return slices.Contains(v.reasons, "") }

// judge is Filter that does not wait for the watch.
func (p *Prebinder) judge(ctx context.Context, pod *v1.Pod, nodes []Node) (judgement, error) {
	facts, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err == nil && facts.chooses() && p.awaitOffers(ctx, pod) {
		facts, err = p.gather(ctx, &reader{caches: p.caches}, pod)
	}
	if err != nil {
		return judgement{}, err
	}
	found, err := facts.judge(nodes)
	if err == nil && facts.chooses() && found.passes() {
		p.offers.made(pod.UID)
	}
	return found, err
}

// awaitOffers waits for the bind calls of the pods before, and tells whether it had
// to.
func (p *Prebinder) awaitOffers(ctx context.Context, pod *v1.Pod) (waited bool) {
	began := time.Now()
	if waited = p.offers.await(ctx, pod.UID); waited {
		observeSince(p.metrics.filterWait.WithLabelValues(filterWaitBindCall), began)
	}
	return waited
}

// chooses tells whether any claim of the pod may take one of several volumes.
func (f *podFacts) chooses() bool {
	return slices.ContainsFunc(f.queries, func(q claimQuery) bool { return f.claims[q.claim].Considered > 0 })
}

// judge tells, for each node, why there is no plan for it, or "".
func (f *podFacts) judge(nodes []Node) (judgement, error) {
	reasons := make([]string, len(nodes))
	if problems := f.hopeless(); len(problems) > 0 {
		why := reasonsOf(problems)
		for i := range reasons {
			reasons[i] = why
		}
		return judgement{reasons, codesOf(problems)}, nil
	}
	return judgement{reasons: reasons}, f.judgeEach(nodes, reasons)
}

// judgeEach fills in the reasons.
func (f *podFacts) judgeEach(nodes []Node, reasons []string) error {
	if quick := f.quick(); quick != nil {
		return quick.each(nodes, func(i int, near nearest) error {
			reasons[i] = quick.against(near)
			return nil
		})
	}
	return inParallel(len(nodes), func(from, to int) error {
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

// hopeless tells what is against the pod whatever the node.
func (f *podFacts) hopeless() []problem {
	var problems []problem
	for i := range f.claims {
		if err := f.claims[i].unusable(f.pod); err != nil {
			problems = append(problems, problem{&f.claims[i], err})
		}
	}
	return problems
}

// codesOf lists each different code once.
func codesOf(problems []problem) []fault.Code {
	codes := make([]fault.Code, 0, len(problems))
	for _, p := range problems {
		codes = append(codes, p.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
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
	return strings.Join(slices.Compact(reasons), reasonSeparator)
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
