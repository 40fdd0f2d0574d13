package volumes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/btree"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// group is the free volumes of one class that the same nodes can reach: their
// required node affinity asks for the same.
type group struct {
	key      string
	places   []place
	selector *nodeaffinity.LazyErrorNodeSelector // nil: every node
	free     *btree.BTreeG[*freeVolume]          // by size, then name
}

// reachable tells whether a node with the labels can reach the volumes. It
// judges as volume.CheckNodeAffinity does, by the same package and by labels
// alone, but parses the affinity once for all volumes and nodes.
func (g *group) reachable(labelled *v1.Node) bool {
	if g.selector == nil {
		return true
	}
	matches, err := g.selector.Match(labelled)
	return matches && err == nil
}

// requiredAffinity returns what has to be true of a node, or nil.
func requiredAffinity(pv *v1.PersistentVolume) *v1.NodeSelector {
	if pv.Spec.NodeAffinity == nil {
		return nil
	}
	return pv.Spec.NodeAffinity.Required
}

// asked lists, for each term that can match at all, what it asks of labels by
// value. No affinity is one term that asks for nothing.
func asked(required *v1.NodeSelector) [][]oneOf {
	if required == nil {
		return [][]oneOf{nil}
	}
	var terms [][]oneOf
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // matches no node
		}
		var all []oneOf
		for _, r := range term.MatchExpressions {
			if r.Operator == v1.NodeSelectorOpIn {
				all = append(all, oneOf{r.Key, r.Values})
			}
		}
		terms = append(terms, all)
	}
	return terms
}

// affinityKey is the same text for affinities that ask for the same in another
// order. Nil is the empty text.
func affinityKey(required *v1.NodeSelector) string {
	if required == nil {
		return ""
	}
	terms := make([]string, 0, len(required.NodeSelectorTerms))
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		terms = append(terms, requirementsKey(term.MatchExpressions)+"@"+requirementsKey(term.MatchFields))
	}
	return "|" + joinSorted(terms, "|")
}

func requirementsKey(requirements []v1.NodeSelectorRequirement) string {
	all := make([]string, 0, len(requirements))
	for i := range requirements {
		r := &requirements[i]
		values := make([]string, 0, len(r.Values))
		for _, value := range r.Values {
			values = append(values, strconv.Quote(value))
		}
		all = append(all, strconv.Quote(r.Key)+string(r.Operator)+joinSorted(values, ","))
	}
	return joinSorted(all, "&")
}

func joinSorted(texts []string, separator string) string {
	slices.Sort(texts)
	return strings.Join(texts, separator)
}

// bySize orders volumes as they are chosen: the smallest first, and where
// volumes are equally large the one whose name comes first.
func bySize(a, b *freeVolume) int {
	if order := a.size.Cmp(b.size); order != 0 {
		return order
	}
	return cmp.Compare(a.name, b.name)
}
