package volumes

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/testkit"
)

// TestIndexChoosesAsAScanDoes changes volumes, nodes, claims and reservations at
// random, in the caches themselves. After each step pods are planned by the
// index and by a scan of all volumes with FindMatchingVolume: both must choose
// the same volumes, or refuse in the same words. PREBIND_LONG=1 takes many steps;
// -rapid.seed takes them again.
func TestIndexChoosesAsAScanDoes(t *testing.T) {
	CheckTimes(t, "100", "3000")
	steps, seen := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newIndexWorld(t, seen)
		t.Repeat(map[string]func(*rapid.T){
			"":               func(t *rapid.T) { steps++; w.check(t) },
			"put volume":     w.putVolume,
			"put volumes":    func(t *rapid.T) { w.putVolume(t); w.putVolume(t); w.putVolume(t) },
			"delete volume":  w.deleteVolume,
			"replace all":    w.replaceAll,
			"put capacity":   w.putCapacity,
			"drop capacity":  w.dropCapacity,
			"relabel node":   w.relabelNode,
			"change claim":   func(t *rapid.T) { w.put(t, "persistentvolumeclaims", drawPVC(t, w.claimName(t))) },
			"reserve":        w.reserve,
			"reserve again":  w.reserve,
			"release":        w.release,
			"write and show": w.write,
		})
	})
	t.Logf("%d steps; answers: %v", steps, seen)
	for _, kind := range []string{"static", "two static", "passed over", "dynamic", "NoVolume", "NoCapacity", "NodeConflict", "tie", "quick", "no quick", "score"} {
		if seen[kind] == 0 {
			t.Errorf("no answer was of kind %q", kind)
		}
	}
}

// indexWorld is a Prebinder whose caches the test writes to.
type indexWorld struct {
	p        *Prebinder
	nodes    []*v1.Node
	reserved []*Reservation
	version  int
	seen     map[string]int
}

func newIndexWorld(t *rapid.T, seen map[string]int) *indexWorld {
	caches, err := NewCaches(fake.NewClientset())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Client: fake.NewClientset(), Caches: caches})
	if err != nil {
		t.Fatal(err)
	}
	w := &indexWorld{p: p, version: 1, seen: seen}
	for _, name := range []string{"n1", "n2"} {
		node := testkit.Node(name).Node
		node.Labels = drawLabels(t)
		w.nodes = append(w.nodes, node)
		w.put(t, "nodes", node)
	}
	w.put(t, "storageclasses", testkit.Class("local").StorageClass)
	w.put(t, "storageclasses", testkit.Class("fast").Provisions("csi.example.com").Within(v1.LabelTopologyZone, "a").StorageClass)
	w.put(t, "csidrivers", testkit.Driver("csi.example.com", true))
	for i := range 4 {
		w.put(t, "persistentvolumeclaims", drawPVC(t, fmt.Sprint("c-", i)))
	}
	for range 10 {
		w.putVolume(t)
	}
	return w
}

func (w *indexWorld) store(resource string) cache.Indexer {
	return w.p.caches.informer[resource].GetIndexer()
}

func (w *indexWorld) put(t *rapid.T, resource string, obj any) {
	if err := w.store(resource).Add(obj); err != nil {
		t.Fatal(err)
	}
}

func (w *indexWorld) oneOf(t *rapid.T, n int, label string) int {
	return rapid.IntRange(0, n-1).Draw(t, label)
}

func (w *indexWorld) claimName(t *rapid.T) string { return fmt.Sprint("c-", w.oneOf(t, 4, "claim")) }

func (w *indexWorld) volumeName(t *rapid.T) string {
	return fmt.Sprint("pv-", w.oneOf(t, 12, "volume"))
}

func (w *indexWorld) putVolume(t *rapid.T) {
	w.version++
	pv := drawPV(t, w.volumeName(t), w.version)
	w.put(t, "persistentvolumes", pv)
	w.p.reservations.observe(pv, false)
}

func (w *indexWorld) deleteVolume(t *rapid.T) {
	pv := w.p.caches.volume(w.volumeName(t))
	if pv == nil {
		return
	}
	if err := w.store("persistentvolumes").Delete(pv); err != nil {
		t.Fatal(err)
	}
	w.p.reservations.observe(pv, true)
}

// relabelNode changes a node, or makes it anew, at times with the labels that it
// had.
func (w *indexWorld) relabelNode(t *rapid.T) {
	i := w.oneOf(t, len(w.nodes), "node")
	node := w.nodes[i].DeepCopy()
	if rapid.Bool().Draw(t, "other labels") {
		node.Labels = drawLabels(t)
	}
	if rapid.Bool().Draw(t, "anew") {
		if err := w.store("nodes").Delete(w.nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	w.nodes[i] = node
	w.put(t, "nodes", node)
}

// replaceAll has the handlers come late: the cache is another, and reservations
// have not heard of it.
func (w *indexWorld) replaceAll(t *rapid.T) {
	for range w.oneOf(t, 4, "changes") + 1 {
		w.version++
		w.put(t, "persistentvolumes", drawPV(t, w.volumeName(t), w.version))
	}
}

func (w *indexWorld) putCapacity(t *rapid.T) {
	w.put(t, "csistoragecapacities", drawCapacity(t, fmt.Sprint("cap-", w.oneOf(t, 4, "capacity"))))
}

func (w *indexWorld) dropCapacity(t *rapid.T) {
	name := fmt.Sprint("cap-", w.oneOf(t, 4, "capacity"))
	if err := w.store("csistoragecapacities").Delete(testkit.Capacity(name, "", "1Gi").CSIStorageCapacity); err != nil {
		t.Fatal(err)
	}
}

func (w *indexWorld) drawPod(t *rapid.T) *v1.Pod {
	pod := testkit.Pod("p")
	for range w.oneOf(t, 3, "claims") + 1 {
		pod.Uses(w.claimName(t))
	}
	return pod.Pod
}

func (w *indexWorld) reserve(t *rapid.T) {
	node := w.nodes[w.oneOf(t, len(w.nodes), "node")]
	plan, err := w.byIndex(t, w.drawPod(t), node)
	if err != nil {
		return
	}
	reservation := newReservation(node.Name, plan)
	if !w.p.hold(node.Name, reservation.toHold()) {
		t.Fatalf("a plan on the caches as they are is refused: %s", showPlan(plan, nil))
	}
	w.reserved = append(w.reserved, reservation)
}

func (w *indexWorld) release(t *rapid.T) {
	if len(w.reserved) > 0 {
		i := w.oneOf(t, len(w.reserved), "reservation")
		w.p.Unreserve(w.reserved[i])
		w.reserved = slices.Delete(w.reserved, i, i+1)
	}
}

// write claims a reserved volume. The cache may show it before the write has
// been answered.
func (w *indexWorld) write(t *rapid.T) {
	if len(w.reserved) == 0 {
		return
	}
	i := w.oneOf(t, len(w.reserved), "reservation")
	first := rapid.Bool().Draw(t, "shown first")
	for _, item := range w.reserved[i].toHold() {
		if item.hold == nil || item.volume == nil || !w.p.reservations.current(item.hold) {
			continue
		}
		bound, _, err := volume.GetBindVolumeToClaim(item.volume, item.claim)
		if err != nil {
			t.Fatal(err)
		}
		w.version++
		bound.ResourceVersion = fmt.Sprint(w.version)
		if !first {
			w.p.settle(item, bound)
			w.check(t)
		}
		w.put(t, "persistentvolumes", bound)
		w.p.reservations.observe(bound, false)
		if first {
			w.p.settle(item, bound)
		}
	}
}
