package volumes

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
)

// query is what a claim asks of a volume wherever that is, parsed once for all
// nodes.
type query struct {
	claim    *v1.PersistentVolumeClaim
	class    string
	least    freeVolume      // where to begin in a group
	selector labels.Selector // nil: any
	// key is the same for queries that accept the same volumes but for their size,
	// and sizeless accepts any size. See intern.
	key      *string
	sizeless *query
}

// newQuery returns what the claim asks, or nil if its selector cannot be parsed:
// no volume matches then, and FindMatchingVolume says why.
func newQuery(claim *v1.PersistentVolumeClaim) *query {
	q := &query{claim: claim, class: volume.GetPersistentVolumeClaimClass(claim)}
	q.least.size = claim.Spec.Resources.Requests[v1.ResourceStorage]
	if claim.Spec.Selector == nil {
		return q
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if err != nil {
		return nil
	}
	q.selector = selector
	return q
}

// smallest appends the n smallest volumes of the group that the claim may have.
func (q *query) smallest(g *group, n int, found []*freeVolume) []*freeVolume {
	g.free.AscendGreaterOrEqual(&q.least, func(free *freeVolume) bool {
		if q.accepts(free.pv) {
			found = append(found, free)
			n--
		}
		return n > 0
	})
	return found
}

// accepts tells whether the claim may have the volume, which is free, if the
// node can reach it. FindMatchingVolume is the judge; it looks at access modes
// only where it has a node to judge as well.
func (q *query) accepts(pv *v1.PersistentVolume) bool {
	if q.selector != nil && !q.selector.Matches(labels.Set(pv.Labels)) {
		return false // it would say so, but parse the selector once more
	}
	match, err := volume.FindMatchingVolume(q.claim, []*v1.PersistentVolume{pv}, nil, nil, false, true)
	return err == nil && match != nil && volume.CheckAccessModes(q.claim, pv)
}

// maxKeys bounds the texts of queries that are kept; what is beyond it is
// forgotten with all the rest, and asked anew.
const maxKeys = 10_000

// intern gives the query what answers are remembered by.
func (x *freeIndex) intern(q *query) {
	claim := *q.claim // only its own fields are changed
	claim.Spec.Resources.Requests = nil
	q.sizeless = &query{claim: &claim, class: q.class, selector: q.selector}
	spec := &q.claim.Spec
	text := fmt.Sprintf("%q", spec.AccessModes)
	if spec.VolumeMode != nil {
		text += "\x00mode " + string(*spec.VolumeMode)
	}
	if spec.VolumeAttributesClassName != nil {
		text += "\x00attributes " + *spec.VolumeAttributesClassName
	}
	if q.selector != nil {
		text += "\x00selector " + q.selector.String()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if q.key = x.keys[text]; q.key == nil {
		if len(x.keys) >= maxKeys {
			clear(x.keys)
		}
		q.key = &text
		x.keys[text] = q.key
	}
}
