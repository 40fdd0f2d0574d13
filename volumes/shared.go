package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// split parts the plan in the claims that other pods wait for too, one each and
// in the order of their UIDs, and all others. Pods that share claims may be on
// their way to different nodes at two replicas, which know nothing of each
// other. If each of them got one claim its way, the volumes would be on two
// nodes, and no pod could ever run. So such claims are bound one after the
// other: the first one decides, and whoever loses it has written nothing else.
func (p *Prebinder) split(pod *v1.Pod, r *Reservation) (shared []*Reservation, rest *Reservation, err error) {
	rest = &Reservation{node: r.node}
	var items []*item
	for _, i := range r.items {
		others, err := p.caches.othersUse(pod, i.claim)
		if err != nil {
			return nil, nil, err
		}
		if others && !i.underWay(r.node) && len(r.items) > 1 {
			items = append(items, i)
		} else {
			rest.items = append(rest.items, i)
		}
	}
	slices.SortFunc(items, byUID)
	for _, i := range items {
		shared = append(shared, &Reservation{node: r.node, items: []*item{i}})
	}
	return shared, rest, nil
}
