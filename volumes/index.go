package volumes

import (
	"slices"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"
)

// btreeDegree makes nodes of 31 volumes at most: a host's local ones are one.
const btreeDegree = 16

// freeIndex finds the free volumes of a class that a node can reach, at a cost
// that does not depend on how many there are elsewhere:
//
//	class -> labels of the node -> groups -> volumes, the smallest first
//
// It is what the cache of volumes shows, less what is held for a claim, and never
// older than the cache: a change is noted while the cache is locked for it, and
// done before the next look.
//
// Locks are taken in this order: that of reservations, mu, the cache's, that of
// changes. Nothing is called with mu held but the cache and pure functions.
type freeIndex struct {
	cached  func(name string) *v1.PersistentVolume
	changes changes

	// Of nodes only what is nearby is kept. Set before use, or nil if nearest is
	// not used.
	cachedNode  func(name string) *v1.Node
	nodeChanges changes

	took prometheus.Observer // of catchUp, or nil

	mu      sync.RWMutex
	keys    map[string]*string  // of queries, each text once
	held    map[string]struct{} // reserved; no entry in volumes
	volumes map[string]*freeVolume
	classes map[string]*freeClass
	nodes   *btree.FreeListG[*freeVolume]
}

// freeClass is a class that has free volumes.
type freeClass struct {
	name   string
	count  int
	groups map[string]*group // by affinityKey
	labels *byLabels[*group]
	nearby nearby
}

// freeVolume is a volume that any claim may take.
type freeVolume struct {
	name  string
	pv    *v1.PersistentVolume
	size  resource.Quantity
	class *freeClass
	group *group
}

// newFreeIndex returns an empty index of a cache. Each change of the cache must
// be noted with changed.
func newFreeIndex(cached func(name string) *v1.PersistentVolume) *freeIndex {
	return &freeIndex{
		cached:  cached,
		changes: newChanges(), nodeChanges: newChanges(),
		keys:    map[string]*string{},
		held:    map[string]struct{}{},
		volumes: map[string]*freeVolume{},
		classes: map[string]*freeClass{},
		nodes:   btree.NewFreeListG[*freeVolume](btree.DefaultFreeListSize),
	}
}

// changed notes that the volume changes, or comes, or goes. It may be called
// with the cache locked.
func (x *freeIndex) changed(name string) { x.changes.note(name) }

// catchUp does what was noted. With a look at the index it is done already, so
// calling it is only a matter of who pays.
func (x *freeIndex) catchUp() {
	if x.changes.none() && x.nodeChanges.none() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer observeSince(x.took, time.Now())
	for name := range x.changes.take() {
		x.refresh(name)
	}
	for name := range x.nodeChanges.take() {
		x.refreshNode(name)
	}
}

// hold hides the volume.
func (x *freeIndex) hold(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held[name] = struct{}{}
	x.refresh(name)
}

// release shows the volume again, if it is still free.
func (x *freeIndex) release(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.held, name)
	x.refresh(name)
}

// count returns how many volumes of the class are free and not held.
func (x *freeIndex) count(class string) int {
	x.catchUp()
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.classes[class]; c != nil {
		return c.count
	}
	return 0
}

// size returns how many volumes are free and not held, as of the last look, and
// how many groups they are in.
func (x *freeIndex) size() (volumes, groups int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, class := range x.classes {
		groups += len(class.groups)
	}
	return len(x.volumes), groups
}

// isFree tells whether any claim may take the volume, as far as the volume
// itself knows.
func isFree(pv *v1.PersistentVolume) bool {
	return pv != nil && pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable && pv.DeletionTimestamp == nil
}

// refresh makes the index show the volume as the cache does.
func (x *freeIndex) refresh(name string) {
	pv := x.cached(name)
	if _, held := x.held[name]; held || !isFree(pv) {
		pv = nil
	}
	old := x.volumes[name]
	if old != nil {
		if old.pv == pv {
			return
		}
		x.remove(old)
	}
	if pv != nil {
		x.insert(pv)
	}
}

func (x *freeIndex) insert(pv *v1.PersistentVolume) {
	className := volume.GetPersistentVolumeClass(pv)
	class := x.classes[className]
	if class == nil {
		class = &freeClass{name: className, groups: map[string]*group{}, labels: newByLabels[*group](), nearby: newNearby()}
		x.classes[className] = class
	}
	free := &freeVolume{name: pv.Name, pv: pv, size: pv.Spec.Capacity[v1.ResourceStorage], class: class, group: x.groupOf(class, pv)}
	free.group.free.ReplaceOrInsert(free)
	class.nearby.forget(free.group)
	class.count++
	x.volumes[free.name] = free
}

func (x *freeIndex) groupOf(class *freeClass, pv *v1.PersistentVolume) *group {
	required := requiredAffinity(pv)
	key := affinityKey(required)
	if g := class.groups[key]; g != nil {
		return g
	}
	g := newGroup(key, required, x.nodes)
	g.places = class.labels.add(g, asked(required))
	class.groups[key] = g
	return g
}

func (x *freeIndex) remove(free *freeVolume) {
	class, g := free.class, free.group
	delete(x.volumes, free.name)
	g.free.Delete(free)
	class.nearby.forget(g)
	if g.free.Len() == 0 {
		class.labels.remove(g, g.places)
		delete(class.groups, g.key)
	}
	if class.count--; class.count == 0 {
		delete(x.classes, class.name)
	}
}

// find returns the n smallest volumes that the query accepts and the node can
// reach, in the order of bySize.
func (x *freeIndex) find(q *query, node *v1.Node, n int) []*v1.PersistentVolume {
	x.catchUp()
	x.mu.RLock()
	defer x.mu.RUnlock()
	class := x.classes[q.class]
	if class == nil {
		return nil
	}
	var found []*freeVolume
	var seen []*group
	class.labels.visit(node.Labels, func(g *group) bool {
		if len(g.places) > 1 {
			if slices.Contains(seen, g) {
				return true
			}
			seen = append(seen, g)
		}
		if g.reachable(node.Labels) {
			found = q.smallest(g, n, found)
		}
		return true
	})
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, bySize)
	pvs := make([]*v1.PersistentVolume, 0, min(n, len(found)))
	for _, free := range found[:min(n, len(found))] {
		pvs = append(pvs, free.pv)
	}
	return pvs
}
