package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// nodes sums up what happens on the nodes, the closest first.
func (f *findings) nodes() Nodes {
	n := Nodes{LeftOut: f.leftOut, Reasons: []Count{}, Nodes: []Node{}}
	counts := map[string]int{}
	for i := range f.explanation.Nodes {
		node := f.node(&f.explanation.Nodes[i])
		n.Considered++
		switch node.Fits {
		case yes:
			n.Fitting++
		case unknown:
			n.Unknown++
		}
		for _, o := range node.Claims {
			if o.general != "" {
				counts["claim "+short(o.Claim)+": "+o.general]++
			}
		}
		n.Nodes = append(n.Nodes, node)
	}
	n.Reasons = sortCounts(counts)
	slices.SortFunc(n.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.Fits), rank(b.Fits)), cmp.Compare(a.far(), b.far()), cmp.Compare(a.Refused, b.Refused),
			slices.CompareFunc(a.Claims, b.Claims, func(a, b Outcome) int { return cmp.Compare(a.Code, b.Code) }), cmp.Compare(a.Node, b.Node))
	})
	return n
}

func (f *findings) node(explained *volumes.ExplainedNode) Node {
	node := Node{Node: explained.Name, Fits: yes, Claims: []Outcome{}}
	for i := range explained.Claims {
		o := f.outcome(i, explained)
		switch o.Outcome {
		case string(volumes.OutcomeRefused):
			node.Refused++
			node.Fits = no
		case unknown:
			if node.Fits == yes {
				node.Fits = unknown
			}
		}
		node.Claims = append(node.Claims, o)
	}
	return node
}

// far counts the claims that a new volume, or more storage, on the node would not help.
func (n *Node) far() int {
	far := 0
	for i := range n.Claims {
		if o := &n.Claims[i]; o.Outcome == string(volumes.OutcomeRefused) && o.Code != string(fault.NoVolume) && o.Code != string(fault.NoCapacity) {
			far++
		}
	}
	return far
}

// rank puts the nodes that fit first.
func rank(fits string) int { return slices.Index([]string{yes, unknown, no}, fits) }

// sortCounts puts what is counted most often first.
func sortCounts(counts map[string]int) []Count {
	sorted := make([]Count, 0, len(counts))
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		sorted = append(sorted, Count{reason, counts[reason]})
	}
	slices.SortStableFunc(sorted, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return sorted
}
