package volumes

import (
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
)

// quick judges thousands of nodes for a pod that has one claim to place, or none,
// beside any number whose volume is named already: nearly every pod. It comes to
// the same result as a plan for each node, without making one.
type quick struct {
	*podFacts
	delayed *ClaimFacts // nil: none
	query   *query
	named   []namedVolume
}

// quick returns nil for a pod that needs plans.
func (f *podFacts) quick() *quick {
	q := &quick{podFacts: f}
	for i := range f.claims {
		c := &f.claims[i]
		switch {
		case c.Claim.Spec.VolumeName != "":
			q.named = append(q.named, newNamedVolume(c.Volume))
		case len(f.queries) != 1 || f.queries[0].claim != i || len(c.Candidates) > 0 || c.asked():
			return nil
		default:
			q.delayed, q.query = c, f.queries[0].query
			f.p.caches.free.intern(q.query)
		}
	}
	return q
}

// asked tells whether the claim is with its provisioner.
func (c *ClaimFacts) asked() bool {
	_, ok := c.Claim.Annotations[volume.AnnSelectedNode]
	return ok
}

// each calls judge once for each node, one after the other: it is done before a
// second processor is awake on a busy machine.
func (q *quick) each(nodes []Node, judge func(i int, near nearest) error) error {
	free := q.p.caches.free
	free.catchUp()
	found := make([]nearest, len(nodes))
	if q.delayed == nil {
		for i := range found {
			found[i].node = free.node(&nodes[i])
		}
	} else if unknown := free.nearest(q.query, nodes, found); len(unknown) > 0 {
		free.learn(q.query.class, unknown)
	}
	for i := range found {
		if err := judge(i, found[i]); err != nil {
			return err
		}
	}
	return nil
}

// against tells why there is no plan for the node, or "".
func (q *quick) against(near nearest) string {
	if near.node == nil {
		return reasonUnknownNode
	}
	conflict, rest := q.conflict(near.node), ""
	if q.delayed != nil && near.best == nil {
		rest = q.withoutVolume(near.node)
	}
	switch {
	case !conflict:
		return rest
	case rest == "" || rest == reasonNodeConflict:
		return reasonNodeConflict
	default:
		return joinReasons([]string{reasonNodeConflict, rest})
	}
}

// withoutVolume tells why the claim cannot be provisioned either.
func (q *quick) withoutVolume(node *v1.Node) string {
	c := q.delayed
	if !c.provisioned() || !topologyAllowed(c.Class.AllowedTopologies, node) {
		return reasonNoVolume
	}
	if size, sized := c.Claim.Spec.Resources.Requests[v1.ResourceStorage]; sized && c.checksCapacity() && q.p.caches.room.find(c.Class.Name, size, node) == nil {
		return reasonNoCapacity
	}
	return ""
}

// score is [podFacts.score].
func (q *quick) score(near nearest) (int64, error) {
	switch {
	case near.best == nil: // to be provisioned, if at all
		return q.podFacts.score(near.node)
	case q.conflict(near.node):
		return 0, nil
	}
	s := storage{requested: bytesOf(q.delayed.Claim.Spec.Resources.Requests), capacity: near.best.size.Value()}
	return scale(100 - s.used()), nil
}

func (q *quick) conflict(node *v1.Node) bool {
	return slices.ContainsFunc(q.named, func(n namedVolume) bool { return !q.reaches(node, &n) })
}

// namedVolume is the volume of a bound claim, its affinity parsed once.
type namedVolume struct {
	pv       *v1.PersistentVolume
	group    *group // of its own; nil: to be judged as a whole
	label    string // if this is all that is asked for
	values   []string
	anywhere bool
}

func newNamedVolume(pv *v1.PersistentVolume) namedVolume {
	n := namedVolume{pv: pv}
	if csitranslation.New().IsPVMigratable(pv) {
		return n // what the node says of migration counts
	}
	required := requiredAffinity(pv)
	if required == nil {
		n.anywhere = true
		return n
	}
	n.group = newGroup("", required, nil)
	if n.group.selector == nil {
		r := &required.NodeSelectorTerms[0].MatchExpressions[0]
		n.label, n.values = r.Key, r.Values
	}
	return n
}

// reaches tells what [reachable] does.
func (f *podFacts) reaches(node *v1.Node, n *namedVolume) bool {
	switch {
	case n.anywhere:
		return true
	case n.group == nil:
		csiNode, _ := f.p.caches.CSINodes.Get(node.Name) // or there is none
		return reachable(n.pv, node, csiNode) == nil
	case n.group.selector != nil:
		return n.group.reachable(node.Labels)
	}
	value, ok := node.Labels[n.label]
	return ok && slices.Contains(n.values, value)
}

// minShare is how many plans make it worth to wake another processor.
const minShare = 500

// inParallel calls work for parts of 0..n.
func inParallel(n int, work func(from, to int) error) error {
	shares := min(runtime.GOMAXPROCS(0), max(1, n/minShare))
	if shares == 1 {
		return work(0, n)
	}
	var group errgroup.Group
	for i := range shares {
		group.Go(guarded(func() error { return work(n*i/shares, n*(i+1)/shares) }))
	}
	return group.Wait()
}
