package volumes

import (
	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/testkit"
)

// verdict is what is said of a node.
type verdict struct {
	Reason string
	Score  int64
}

// checkFilter compares what is said of many nodes at once with a plan for each. A
// node that is in no cache is refused, but not if it was sent whole.
func (w *indexWorld) checkFilter(t *rapid.T, pod *v1.Pod) {
	facts, err := w.p.gather(t.Context(), &reader{caches: w.p.caches}, pod)
	if err != nil {
		t.Fatal(err)
	}
	ghost := testkit.Node("ghost").Node
	ghost.Labels = w.nodes[0].Labels
	for _, sent := range []bool{false, true} {
		var nodes []Node
		var want []verdict
		for _, node := range append([]*v1.Node{ghost}, w.nodes...) {
			asked := Node{Name: node.Name, Sent: sent}
			if sent {
				asked.Labels = node.Labels
			}
			nodes = append(nodes, asked)
			want = append(want, w.planned(t, facts, node, !sent && node == ghost))
		}
		found, err := w.p.judge(t.Context(), pod, nodes)
		if err != nil {
			t.Fatal(err)
		}
		scores, err := w.p.Score(t.Context(), pod, nodes)
		if err != nil {
			t.Fatal(err)
		}
		var got []verdict
		for i := range nodes {
			got = append(got, verdict{found.reasons[i], scores[i]})
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("claims %v, sent whole: %t (-plan +filter and score):\n%s\nvolumes:\n%s", ClaimNames(pod), sent, diff, w.show())
		}
		w.seen["quick"] += boolInt(facts.quick() != nil)
		w.seen["no quick"] += boolInt(facts.quick() == nil)
		for _, v := range got {
			w.seen["score"] += boolInt(v.Score > 0)
		}
	}
}

func (w *indexWorld) planned(t *rapid.T, facts *podFacts, node *v1.Node, unknown bool) verdict {
	if unknown {
		return verdict{Reason: reasonUnknownNode}
	}
	reason, err := facts.against(node)
	if err != nil {
		t.Fatal(err)
	}
	points, err := facts.score(node)
	if err != nil {
		t.Fatal(err)
	}
	return verdict{reason, points}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
