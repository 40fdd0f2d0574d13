package volumes

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Held is what is promised to a claim and what the cache does not show yet.
type Held struct {
	Claim types.NamespacedName
	// Volume is promised to the claim; empty: it is to be provisioned for Node.
	Volume string
	// Node is that of the call that made the promise.
	Node  string
	Since time.Time
	// Written tells that the API has it, and only our watch lags.
	Written bool
}

// Reservations lists what is promised at this moment, the oldest first. At rest
// there is nothing; [Prebinder.Reserved] is cheaper.
func (p *Prebinder) Reservations() []Held { return p.reservations.list() }

func (r *reservations) list() []Held {
	r.mu.Lock()
	all := make([]Held, 0, len(r.byClaim))
	for _, h := range r.byClaim {
		all = append(all, Held{Claim: h.name, Volume: h.volume, Node: h.node, Since: h.since, Written: h.written != ""})
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Claim.String(), b.Claim.String()))
	})
	return all
}
