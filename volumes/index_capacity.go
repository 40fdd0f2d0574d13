package volumes

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// capacityIndex finds what drivers report of the room that a node can reach: class
// -> labels of the node -> capacities. Drivers with local storage report one for
// each node. It follows its cache as freeIndex does, and takes locks in the same
// order.
type capacityIndex struct {
	cached  func(key string) *storagev1.CSIStorageCapacity // by namespace/name
	changes changes

	took prometheus.Observer // of catchUp, or nil

	mu      sync.RWMutex
	known   map[string]*capacity
	classes map[string]*byLabels[*capacity]
}

// capacity is one report, with its selector parsed.
type capacity struct {
	*storagev1.CSIStorageCapacity
	limit    *resource.Quantity // the largest volume that fits
	topology labels.Selector
	places   []place
}

func newCapacityIndex(cached func(key string) *storagev1.CSIStorageCapacity) *capacityIndex {
	return &capacityIndex{
		cached:  cached,
		changes: newChanges(),
		known:   map[string]*capacity{},
		classes: map[string]*byLabels[*capacity]{},
	}
}

// changed notes that the capacity changes, or comes, or goes. It may be called
// with the cache locked.
func (x *capacityIndex) changed(key string) { x.changes.note(key) }

// catchUp does what was noted.
func (x *capacityIndex) catchUp() {
	if x.changes.none() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer observeSince(x.took, time.Now())
	for key := range x.changes.take() {
		x.refresh(key)
	}
}

// size returns how many reports are known that a node can use.
func (x *capacityIndex) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.known)
}

func (x *capacityIndex) refresh(key string) {
	if old := x.known[key]; old != nil {
		delete(x.known, key)
		class := x.classes[old.StorageClassName]
		class.remove(old, old.places)
		if class.empty() {
			delete(x.classes, old.StorageClassName)
		}
	}
	now := newCapacity(x.cached(key))
	if now == nil {
		return
	}
	class := x.classes[now.StorageClassName]
	if class == nil {
		class = newByLabels[*capacity]()
		x.classes[now.StorageClassName] = class
	}
	x.known[key] = now
	now.places = class.add(now, [][]oneOf{askedBySelector(now.NodeTopology)})
}

// newCapacity returns nil if no node can use it.
func newCapacity(reported *storagev1.CSIStorageCapacity) *capacity {
	if reported == nil || reported.NodeTopology == nil {
		return nil
	}
	c := &capacity{CSIStorageCapacity: reported, limit: reported.MaximumVolumeSize} // the more precise one, where given
	if c.limit == nil {
		c.limit = reported.Capacity
	}
	var err error
	if c.topology, err = metav1.LabelSelectorAsSelector(reported.NodeTopology); err != nil || c.limit == nil {
		return nil
	}
	return c
}

// askedBySelector lists what the selector asks of labels by value.
func askedBySelector(selector *metav1.LabelSelector) (all []oneOf) {
	for label, value := range selector.MatchLabels {
		all = append(all, oneOf{label, []string{value}})
	}
	for _, r := range selector.MatchExpressions {
		if r.Operator == metav1.LabelSelectorOpIn {
			all = append(all, oneOf{r.Key, r.Values})
		}
	}
	return all
}

// find returns the roomiest capacity of the class that the node can reach, if it
// has room for the size, or nil.
func (x *capacityIndex) find(class string, size resource.Quantity, node *v1.Node) *storagev1.CSIStorageCapacity {
	x.catchUp()
	x.mu.RLock()
	defer x.mu.RUnlock()
	known := x.classes[class]
	if known == nil {
		return nil
	}
	var best *capacity
	known.visit(node.Labels, func(c *capacity) bool {
		// In bytes, as kube-scheduler compares them.
		if c.limit.Value() >= size.Value() && (best == nil || c.roomier(best)) && c.topology.Matches(labels.Set(node.Labels)) {
			best = c
		}
		return true
	})
	if best == nil {
		return nil
	}
	return best.CSIStorageCapacity
}

// findRoom looks for Room, if the driver asks for capacity checks.
func (c *ClaimFacts) findRoom(x *capacityIndex, node *v1.Node) {
	if c.checksCapacity() {
		c.Room = x.find(c.Class.Name, c.Claim.Spec.Resources.Requests[v1.ResourceStorage], node)
	}
}

// roomier is an order: where capacities are equal, names decide.
func (c *capacity) roomier(than *capacity) bool {
	if order := c.limit.Cmp(*than.limit); order != 0 {
		return order > 0
	}
	return c.Namespace+"/"+c.Name < than.Namespace+"/"+than.Name
}
