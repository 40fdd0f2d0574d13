package volumes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/btree"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// group is the free volumes of one class that the same nodes can reach: their
// required node affinity asks for the same.
type group struct {
	key      string
	places   []place
	selector *nodeaffinity.LazyErrorNodeSelector // nil: every node that finds it
	free     *btree.BTreeG[*freeVolume]          // by size, then name
}

func newGroup(key string, required *v1.NodeSelector, nodes *btree.FreeListG[*freeVolume]) *group {
	g := &group{key: key, free: btree.NewWithFreeListG(btreeDegree, func(a, b *freeVolume) bool { return bySize(a, b) < 0 }, nodes)}
	if required == nil {
		return g
	}
	g.selector = nodeaffinity.NewLazyErrorNodeSelector(required)
	if g.foundIsReachable(required) {
		g.selector = nil
	}
	return g
}

// foundIsReachable tells whether the label by which the volumes are found is all
// that is asked: what nearly all local volumes have.
func (g *group) foundIsReachable(required *v1.NodeSelector) bool {
	if len(required.NodeSelectorTerms) != 1 || len(required.NodeSelectorTerms[0].MatchFields) > 0 || len(required.NodeSelectorTerms[0].MatchExpressions) != 1 {
		return false
	}
	r := &required.NodeSelectorTerms[0].MatchExpressions[0]
	return r.Operator == v1.NodeSelectorOpIn && len(r.Values) > 0 && g.reachable(map[string]string{r.Key: r.Values[0]})
}

// reachable tells whether a node with the labels, by which the group was found,
// can reach the volumes. It judges as volume.CheckNodeAffinity does, by the same
// package and by labels alone, but parses the affinity once for all volumes and
// nodes.
func (g *group) reachable(labels map[string]string) bool {
	if g.selector == nil {
		return true
	}
	matches, err := g.selector.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
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
