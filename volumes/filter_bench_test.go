package volumes

import (
	"fmt"
	"testing"

	"github.com/prebind/prebind/internal/testkit"
)

// BenchmarkFilter judges all nodes for one pod with one static claim, where each
// has 20 local volumes.
func BenchmarkFilter(b *testing.B) {
	for _, count := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d", count/volumesPerNode), func(b *testing.B) {
			bench, nodes := newFilterBench(b, count)
			measure(b, func(int) {
				if _, err := bench.p.judge(b.Context(), bench.pod, nodes); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkFilterSizes is BenchmarkFilter for pods whose claims are of ten sizes.
func BenchmarkFilterSizes(b *testing.B) {
	bench, nodes := newFilterBench(b, 100_000)
	pods := make([]testkit.PodBuilder, 10)
	for i := range pods {
		name := fmt.Sprint("data-", i)
		bench.put(b, "persistentvolumeclaims", testkit.Claim(name).Size(fmt.Sprintf("%dGi", 1+i)).PersistentVolumeClaim)
		pods[i] = testkit.Pod("p").Uses(name)
	}
	judge := func(i int) {
		if _, err := bench.p.judge(b.Context(), pods[i%len(pods)].Pod, nodes); err != nil {
			b.Fatal(err)
		}
	}
	for i := range pods { // each size is new to all nodes once
		judge(i)
	}
	measure(b, judge)
}

// BenchmarkFilterBound is BenchmarkFilter for a claim that is bound already.
func BenchmarkFilterBound(b *testing.B) {
	bench, nodes := newFilterBench(b, 100_000)
	claim := testkit.Claim("data").Size("5Gi").Bound("pv-node-00007-04")
	bench.put(b, "persistentvolumeclaims", claim.PersistentVolumeClaim)
	pv := benchVolume(7*volumesPerNode + 4)
	testkit.VolumeBuilder{PersistentVolume: pv}.ClaimedBy(claim)
	bench.put(b, "persistentvolumes", pv)
	measure(b, func(int) {
		found, err := bench.p.judge(b.Context(), bench.pod, nodes)
		if err != nil || found.reasons[7] != "" || found.reasons[8] != reasonNodeConflict {
			b.Fatal(found.reasons[7:9], err)
		}
	})
}

// BenchmarkScore is BenchmarkFilter for scores.
func BenchmarkScore(b *testing.B) {
	bench, nodes := newFilterBench(b, 100_000)
	measure(b, func(int) {
		if _, err := bench.p.Score(b.Context(), bench.pod, nodes); err != nil {
			b.Fatal(err)
		}
	})
}

func newFilterBench(b *testing.B, count int) (*bench, []Node) {
	b.Helper()
	bench := newBench(b, count)
	nodes := make([]Node, len(bench.node))
	for i, node := range bench.node {
		nodes[i].Name = node.Name
	}
	return bench, nodes
}
