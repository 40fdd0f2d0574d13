package volumes

import (
	"maps"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nearby remembers, for calls that look at thousands of nodes, where the free
// volumes of a class are filed that each node can reach, and what was found there
// lately. A node then costs a look into one map and at an answer, instead of
// some forty places in memory that are in no processor's cache.
//
//	node -> shelves -> the smallest volume that a query accepts, and for which sizes
//
// Answers are dropped when a volume comes to their shelf or goes; a node is
// dropped when its labels change, and all are when the class gets a volume that
// is filed under another label than before. Answers may be set with the index
// locked for reading, all else needs it locked for writing.
type nearby struct {
	version int // of the class's labels
	nodes   map[string]*nodeShelves
	shelves map[place]*shelf
}

// nodeShelves are where a node finds volumes. Volumes that are filed under the
// zero place are apart, they are the same for all nodes.
type nodeShelves struct {
	node    *v1.Node
	shelves []*shelf
}

// shelf is what is filed in one place.
type shelf struct {
	at      place
	answers atomic.Pointer[[]*answer] // never changed, but replaced
}

// maxAnswers is how many answers are remembered of a shelf, for claims of several
// sizes and kinds that come in turn.
const maxAnswers = 16

// answer returns what is remembered for the query, or nil.
func (s *shelf) answer(q *query) *answer {
	known := s.answers.Load()
	if known == nil {
		return nil
	}
	for _, a := range *known {
		if a.key == q.key && a.covers(&q.least.size) {
			return a
		}
	}
	return nil
}

// remember adds an answer. Of two at once one may be lost.
func (s *shelf) remember(a *answer) {
	answers := []*answer{a}
	if known := s.answers.Load(); known != nil && len(*known) < maxAnswers {
		answers = append(answers, *known...)
	}
	s.answers.Store(&answers)
}

// answer is what a query finds on a shelf. It is true for all sizes from the
// least one to that of the volume, or, without a volume, for all larger ones:
// claims of many sizes, in turn, have one answer.
type answer struct {
	key   *string // of the query
	least resource.Quantity
	best  *freeVolume // of those that every node reaches that finds them, or nil
	judge []*group    // those that have to be judged for each node
}

func (a *answer) covers(size *resource.Quantity) bool {
	return size.Cmp(a.least) >= 0 && (a.best == nil || size.Cmp(a.best.size) <= 0)
}

// nearest is a node with the smallest volume that a query accepts and it can
// reach. The node is nil if it is not known, the volume if there is none.
type nearest struct {
	node *v1.Node
	best *freeVolume
}

// nearest answers the query for each of the nodes. Those that the class does not
// know yet cost more, and are told to learn.
func (x *freeIndex) nearest(q *query, nodes []Node, found []nearest) (unknown []*v1.Node) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	class := x.classes[q.class]
	current := class != nil && class.nearby.version == class.labels.version
	for i := range nodes {
		var at *nodeShelves
		if current && !nodes[i].Sent {
			at = class.nearby.nodes[nodes[i].Name]
		}
		if at == nil {
			node := x.node(&nodes[i])
			if node == nil || class == nil {
				found[i].node = node
				continue
			}
			at = class.shelvesOf(node, func(at place) *shelf { return &shelf{at: at} })
			if !nodes[i].Sent {
				unknown = append(unknown, node)
			}
		}
		found[i] = nearest{node: at.node}
		if len(class.labels.anywhere) > 0 {
			found[i].best = class.look(class.nearby.shelves[place{}], q, at.node, nil)
		}
		for _, s := range at.shelves {
			found[i].best = class.look(s, q, at.node, found[i].best)
		}
	}
	return unknown
}

// node returns the node to judge, or nil if it is not known.
func (x *freeIndex) node(n *Node) *v1.Node {
	if n.Sent {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	}
	return x.cachedNode(n.Name)
}

// shelvesOf returns where the node finds volumes.
func (c *freeClass) shelvesOf(node *v1.Node, shelfAt func(place) *shelf) *nodeShelves {
	at := &nodeShelves{node: node}
	for label := range c.labels.values {
		if value, ok := node.Labels[label]; ok {
			at.shelves = append(at.shelves, shelfAt(place{label, value}))
		}
	}
	return at
}

// look returns the smaller one of best and what is on the shelf for the node.
func (c *freeClass) look(s *shelf, q *query, node *v1.Node, best *freeVolume) *freeVolume {
	found := s.answer(q)
	if found == nil {
		found = c.search(s.at, q)
		s.remember(found)
	}
	best = smaller(best, found.best)
	for _, g := range found.judge {
		if g.reachable(node.Labels) {
			best = smaller(best, q.best(g))
		}
	}
	return best
}

// search looks at the volumes of a place.
func (c *freeClass) search(at place, q *query) *answer {
	found := &answer{key: q.key}
	add := func(g *group) {
		if g.selector != nil {
			found.judge = append(found.judge, g)
			return
		}
		best := q.sizeless.best(g)
		if best != nil && best.size.Cmp(q.least.size) < 0 {
			found.least, best = q.least.size, q.best(g)
		}
		found.best = smaller(found.best, best)
	}
	if at == (place{}) {
		for g := range c.labels.anywhere {
			add(g)
		}
	}
	for _, g := range c.labels.values[at.label][at.value] {
		add(g)
	}
	return found
}

// smaller returns the one that is chosen first. Nil is none.
func smaller(a, b *freeVolume) *freeVolume {
	if a == nil || (b != nil && bySize(b, a) < 0) {
		return b
	}
	return a
}

// best returns the smallest volume of the group that the claim may have, or nil.
func (q *query) best(g *group) *freeVolume {
	if found := q.smallest(g, 1, nil); len(found) > 0 {
		return found[0]
	}
	return nil
}

// learn makes the class know the nodes.
func (x *freeIndex) learn(className string, nodes []*v1.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	class := x.classes[className]
	if class == nil {
		return
	}
	if n := &class.nearby; n.version != class.labels.version {
		*n = newNearby()
		n.version = class.labels.version
	}
	for _, node := range nodes {
		if x.cachedNode(node.Name) == node { // or its change is noted already
			class.nearby.nodes[node.Name] = class.shelvesOf(node, class.nearby.shelfAt)
		}
	}
}

func newNearby() nearby {
	return nearby{nodes: map[string]*nodeShelves{}, shelves: map[place]*shelf{{}: {}}}
}

func (n *nearby) shelfAt(at place) *shelf {
	s := n.shelves[at]
	if s == nil {
		s = &shelf{at: at}
		n.shelves[at] = s
	}
	return s
}

// forget drops the answers that a group has a part in.
func (n *nearby) forget(g *group) {
	for _, at := range g.places {
		if s := n.shelves[at]; s != nil {
			s.answers.Store(nil)
		}
	}
}

// nodeChanged notes that the node changes, or comes, or goes. It may be called
// with the cache locked.
func (x *freeIndex) nodeChanged(name string) { x.nodeChanges.note(name) }

// refreshNode makes the classes forget a node that has other labels now. A node
// is changed often, by its kubelet, but its labels are not.
func (x *freeIndex) refreshNode(name string) {
	now := x.cachedNode(name)
	for _, class := range x.classes {
		at := class.nearby.nodes[name]
		switch {
		case at == nil:
		case now != nil && maps.Equal(now.Labels, at.node.Labels):
			at.node = now
		default:
			delete(class.nearby.nodes, name)
		}
	}
}
