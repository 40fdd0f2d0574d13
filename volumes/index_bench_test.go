package volumes

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/prebind/prebind/internal/testkit"
)

// volumesPerNode is what a node has of its own in the benchmarks.
const volumesPerNode = 20

// benchSizes are how many volumes there are in all.
var benchSizes = []int{1_000, 10_000, 100_000}

// bench is a Prebinder with nodes of 20 local volumes each.
type bench struct {
	p    *Prebinder
	pod  *v1.Pod
	node []*v1.Node
}

func newBench(tb testing.TB, count int) *bench {
	tb.Helper()
	caches, err := NewCaches(fake.NewClientset())
	if err != nil {
		tb.Fatal(err)
	}
	p, err := New(Config{Client: fake.NewClientset(), Caches: caches})
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{p: p, pod: testkit.Pod("p").Uses("data").Pod}
	b.put(tb, "storageclasses", testkit.Class("local").StorageClass)
	b.put(tb, "persistentvolumeclaims", testkit.Claim("data").Size("5Gi").PersistentVolumeClaim)
	for i := range count / volumesPerNode {
		node := testkit.Node(nodeNameOf(i)).Label(v1.LabelHostname, nodeNameOf(i)).Label(v1.LabelTopologyZone, fmt.Sprint("zone-", i%3)).Node
		b.node = append(b.node, node)
		b.put(tb, "nodes", node)
	}
	for i := range count {
		b.put(tb, "persistentvolumes", benchVolume(i))
	}
	p.caches.free.catchUp()
	return b
}

func nodeNameOf(i int) string { return fmt.Sprintf("node-%05d", i) }

func benchVolume(i int) *v1.PersistentVolume {
	host := nodeNameOf(i / volumesPerNode)
	return testkit.Volume(fmt.Sprintf("pv-%s-%02d", host, i%volumesPerNode)).Size(fmt.Sprintf("%dGi", 1+i%volumesPerNode)).OnHost(host).PersistentVolume
}

func (b *bench) put(tb testing.TB, resource string, obj any) {
	tb.Helper()
	if err := b.p.caches.informer[resource].GetIndexer().Add(obj); err != nil {
		tb.Fatal(err)
	}
}

func (b *bench) gather(tb testing.TB) *podFacts {
	tb.Helper()
	facts, err := b.p.gather(tb.Context(), &reader{caches: b.p.caches}, b.pod)
	if err != nil {
		tb.Fatal(err)
	}
	return facts
}

// measure runs the benchmark. Beside the time on the clock it reports that on the
// processor, which says more where others use the machine.
func measure(b *testing.B, run func(i int)) {
	b.Helper()
	b.ReportAllocs()
	var before, after syscall.Rusage
	runtime.GC()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		run(n)
		n++
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	spent := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/float64(n), "cpu-ns/op")
}

// BenchmarkPlan plans one pod with one claim on one node, as a bind call does.
func BenchmarkPlan(b *testing.B) {
	for _, count := range benchSizes {
		b.Run(fmt.Sprintf("volumes=%d", count), func(b *testing.B) {
			bench := newBench(b, count)
			measure(b, func(int) {
				if _, err := bench.p.Plan(b.Context(), bench.pod, bench.node[0].Name); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkPlanOn is the share of a node in a call that looks at many: of one
// and the same, and of each in turn, none of which is in the processor's caches.
func BenchmarkPlanOn(b *testing.B) {
	for _, nodes := range []string{"one", "all"} {
		for _, count := range benchSizes {
			b.Run(fmt.Sprintf("nodes=%s/volumes=%d", nodes, count), func(b *testing.B) {
				bench := newBench(b, count)
				facts := bench.gather(b)
				if nodes == "one" {
					bench.node = bench.node[:1]
				}
				measure(b, func(i int) {
					if _, err := facts.planOn(bench.node[i%len(bench.node)]); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkPlanOnFull is BenchmarkPlanOn for nodes that have no volume left.
func BenchmarkPlanOnFull(b *testing.B) {
	bench := newBench(b, 10_000)
	facts := bench.gather(b)
	node := testkit.Node("full").Label(v1.LabelHostname, "full").Node
	measure(b, func(int) {
		if _, err := facts.planOn(node); err == nil {
			b.Fatal("there is a plan")
		}
	})
}

// BenchmarkIndexUpdate changes the phase of a volume, to and fro; the share of
// client-go's cache is in it.
func BenchmarkIndexUpdate(b *testing.B) {
	for _, count := range benchSizes {
		b.Run(fmt.Sprintf("volumes=%d", count), func(b *testing.B) {
			bench := newBench(b, count)
			var states [2][]*v1.PersistentVolume
			for i := range 1000 {
				free := benchVolume(i)
				bound := free.DeepCopy()
				bound.Status.Phase = v1.VolumeBound
				states[0], states[1] = append(states[0], bound), append(states[1], free)
			}
			measure(b, func(i int) {
				bench.put(b, "persistentvolumes", states[i/1000%2][i%1000])
				bench.p.caches.free.catchUp()
			})
		})
	}
}

// BenchmarkIndexHold is what reserving a volume and letting it go costs the index.
func BenchmarkIndexHold(b *testing.B) {
	bench := newBench(b, 100_000)
	name := benchVolume(7).Name
	measure(b, func(int) {
		bench.p.caches.free.hold(name)
		bench.p.caches.free.release(name)
	})
}

// BenchmarkIndexStart indexes 100,000 volumes, one by one as they are listed.
func BenchmarkIndexStart(b *testing.B) {
	const count = 100_000
	volumes := make(map[string]*v1.PersistentVolume, count)
	names := make([]string, 0, count)
	for i := range count {
		pv := benchVolume(i)
		volumes[pv.Name] = pv
		names = append(names, pv.Name)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var index *freeIndex
	measure(b, func(int) {
		index = newFreeIndex(func(name string) *v1.PersistentVolume { return volumes[name] })
		for _, name := range names {
			index.changed(name)
			index.catchUp()
		}
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := index.count("local"); n != count {
		b.Fatalf("%d volumes are indexed, want %d", n, count)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/volume")
	runtime.KeepAlive(volumes)
}
