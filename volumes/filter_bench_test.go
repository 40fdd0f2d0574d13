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

// BenchmarkFilterBound is BenchmarkFilter for a claim that is bound already.
func BenchmarkFilterBound(b *testing.B) {
	bench, nodes := newFilterBench(b, 100_000)
	claim := testkit.Claim("data").Size("5Gi").Bound("pv-node-00007-04")
	bench.put(b, "persistentvolumeclaims", claim.PersistentVolumeClaim)
	pv := benchVolume(7*volumesPerNode + 4)
	testkit.VolumeBuilder{PersistentVolume: pv}.ClaimedBy(claim)
	bench.put(b, "persistentvolumes", pv)
	measure(b, func(int) {
		reasons, err := bench.p.judge(b.Context(), bench.pod, nodes)
		if err != nil || reasons[7] != "" || reasons[8] != reasonNodeConflict {
			b.Fatal(reasons[7:9], err)
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
