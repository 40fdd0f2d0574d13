package volumes

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// offerWait is how long a filter call waits for the bind call of the pod before.
	offerWait = 25 * time.Millisecond
	// offersMissed is after how many waits in a row that were for nothing
	// there are none any more, until a bind call comes in time again. The
	// scheduler may be asking another replica.
	offersMissed = 3
)

// offers are the pods whose filter calls were answered with nodes, and whose bind
// calls have not come yet. kube-scheduler judges the next pod as soon as it has
// chosen a node, and its bind call comes at the same time: judged without what
// that call reserves, the next pod may be sent after a node's last volume, too,
// fail, and be back a second later at the earliest.
type offers struct {
	mu     sync.Mutex
	open   map[types.UID]offer
	missed int
}

type offer struct {
	until time.Time
	taken chan struct{} // closed when the bind call has its reservation, or none
}

// made is called when the pod was offered nodes.
func (o *offers) made(pod types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close(pod)
	if o.open == nil {
		o.open = map[types.UID]offer{}
	}
	o.open[pod] = offer{until: time.Now().Add(offerWait), taken: make(chan struct{})}
}

// taken is called when the pod's bind call has reserved, or cannot.
func (o *offers) taken(pod types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offer, ok := o.open[pod]; ok && time.Now().Before(offer.until) {
		o.missed = 0
	}
	o.close(pod)
}

// close ends the offer. The caller has the lock.
func (o *offers) close(pod types.UID) {
	if offer, ok := o.open[pod]; ok {
		close(offer.taken)
		delete(o.open, pod)
	}
}

// await waits until no offer to another pod is open, and tells whether it had to.
func (o *offers) await(ctx context.Context, pod types.UID) (waited bool) {
	for {
		other, ok := o.other(pod)
		if !ok {
			return waited
		}
		waited = true
		timer := time.NewTimer(time.Until(other.until))
		select {
		case <-other.taken:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return waited
		}
	}
}

// other returns an offer to another pod that is worth waiting for. Those that
// nobody took are forgotten.
func (o *offers) other(pod types.UID) (found offer, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for uid, offer := range o.open {
		if !now.Before(offer.until) {
			o.close(uid)
			if uid != pod {
				o.missed++
			}
		} else if uid != pod {
			found, ok = offer, true
		}
	}
	return found, ok && o.missed < offersMissed
}
