package volumes

import (
	"strings"

	"github.com/prebind/prebind/internal/fault"
)

// What becomes of a node in a filter call: the label "result".
const (
	nodePassed  = "passed"
	nodeRefused = "refused"
)

// filtered counts what a filter call answers. Nodes have few reasons between them,
// so a node costs a comparison, and each reason is looked at once.
func (m *metrics) filtered(v judgement) {
	refused := 0
	counts := map[string]int{}
	last, run := "", 0
	for _, reason := range v.reasons {
		if reason == "" {
			continue
		}
		refused++
		if reason != last {
			counts[last] += run
			last, run = reason, 0
		}
		run++
	}
	counts[last] += run
	m.nodes.WithLabelValues(nodePassed).Add(float64(len(v.reasons) - refused))
	m.nodes.WithLabelValues(nodeRefused).Add(float64(refused))
	if len(v.pod) > 0 {
		for _, code := range v.pod {
			m.reject(code, refused)
		}
		return
	}
	delete(counts, "")
	for reasons, n := range counts {
		for reason := range strings.SplitSeq(reasons, reasonSeparator) {
			m.reject(codeOf(reason), n)
		}
	}
}

func (m *metrics) reject(code fault.Code, nodes int) {
	m.rejections.WithLabelValues(string(code)).Add(float64(nodes))
}

// codeOf returns the code of a reason that is about one node. Those about the pod
// have names in them, and come with their codes.
func codeOf(reason string) fault.Code {
	switch reason {
	case reasonUnknownNode:
		return fault.NodeNotFound
	case reasonNoVolume:
		return fault.NoVolume
	case reasonNodeConflict:
		return fault.NodeConflict
	case reasonNoCapacity:
		return fault.NoCapacity
	case reasonSelectedNode:
		return fault.SelectedNodeConflict
	default:
		return fault.Internal
	}
}
