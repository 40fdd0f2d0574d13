package volumes

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/component-helpers/storage/volume"
)

// reservations are what this process has promised to claims and what the cache
// does not yet show: a volume, or to have one provisioned for a node. They keep
// the pods of one replica from choosing the same volume, and pods that share
// claims from sending them to different nodes; between replicas, and against
// anybody else, only the resourceVersion of the write does.
//
// A reservation lives from reserve until release, or, once the claimRef or the
// selected-node is written, until the cache shows that write (observe). It is
// never needed for correctness afterwards and never outlives its volume.
type reservations struct {
	cached cached
	free   *freeIndex // shows what is not held

	mu       sync.Mutex // short: no I/O, no calls out but of cached and free
	byVolume map[string]*hold
	byClaim  map[types.UID]*hold
}

// cached is what the caches show at this moment.
type cached interface {
	// volume returns the volume, or nil.
	volume(name string) *v1.PersistentVolume
	// claim returns the claim, or nil.
	claim(namespace, name string) *v1.PersistentVolumeClaim
}

// hold is what is promised to one claim: a volume, or, if that is empty, to be
// provisioned for a node. A call that has a share of it keeps the pointer: the
// same promised to the same claim once more, after this one was dropped, is
// another hold, and none of its business.
type hold struct {
	volume string
	node   string // of the call that made it
	claim  types.UID
	name   types.NamespacedName // of the claim
	since  time.Time
	// holders counts the calls that have a share: pods may share a claim.
	holders int
	// written is the resourceVersion of the volume, or else of the claim, after
	// it was written, or empty.
	written string
}

func newReservations(c cached, free *freeIndex) *reservations {
	return &reservations{cached: c, free: free, byVolume: map[string]*hold{}, byClaim: map[types.UID]*hold{}}
}

// promised returns what another call, or an earlier one of the same pod, holds
// for the claim: a volume, or the node for which it is provisioned. Both are
// empty if there is nothing.
func (r *reservations) promised(claim types.UID) (pv, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch held := r.byClaim[claim]; {
	case held == nil:
		return "", ""
	case held.volume != "":
		return held.volume, ""
	default:
		return "", held.node
	}
}

// reserve holds, for each binding, the volume for its claim, or the claim for
// the node if it has no volume; or nothing at all: false means that another call
// was faster and the plan must be made again. It holds a volume or a claim, or
// had held it, and the cache shows its write by now. The caller gets a share of
// each hold, in the order of the bindings.
func (r *reservations) reserve(node string, bindings []Binding) ([]*hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range bindings {
		if !r.available(node, b) {
			return nil, false
		}
	}
	holds := make([]*hold, 0, len(bindings))
	for _, b := range bindings {
		held := r.byClaim[b.Claim.UID]
		if held == nil {
			held = &hold{
				node: node, claim: b.Claim.UID, since: time.Now(),
				name: types.NamespacedName{Namespace: b.Claim.Namespace, Name: b.Claim.Name},
			}
			if b.Volume != nil {
				held.volume = b.Volume.Name
				r.byVolume[held.volume] = held
				r.free.hold(held.volume)
			}
			r.byClaim[held.claim] = held
		}
		held.holders++
		holds = append(holds, held)
	}
	return holds, true
}

// available tells whether the binding can be promised, or is already.
func (r *reservations) available(node string, b Binding) bool {
	own := r.byClaim[b.Claim.UID]
	if b.Volume == nil {
		// What the plan was made from may be newer than the cache, if it was
		// read live; then it counts.
		now := r.cached.claim(b.Claim.Namespace, b.Claim.Name)
		if now != nil && now.UID == b.Claim.UID && older(b.Claim.ResourceVersion, now.ResourceVersion) {
			if selected, asked := now.Annotations[volume.AnnSelectedNode]; asked && selected != node {
				return false
			}
		}
		return own == nil || (own.volume == "" && own.node == node)
	}
	if held := r.byVolume[b.Volume.Name]; held != nil && held.claim != b.Claim.UID {
		return false
	}
	if now := r.cached.volume(b.Volume.Name); now != nil && now.Spec.ClaimRef != nil && now.Spec.ClaimRef.UID != b.Claim.UID {
		return false
	}
	return own == nil || own.volume == b.Volume.Name
}

// release gives one share up. What was written stays reserved until the cache
// shows it.
func (r *reservations) release(share *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	share.holders--
	if share.holders <= 0 && share.written == "" {
		r.drop(share)
	}
}

// lost drops the hold for all who share it: the volume turned out to be
// another claim's, or gone, so none of them can have it.
func (r *reservations) lost(share *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if share.written == "" {
		r.drop(share)
	}
}

// current tells whether the volume is still promised by this very hold.
func (r *reservations) current(share *hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byClaim[share.claim] == share
}

// wrote records that the claimRef is in the API. If the cache shows the write
// already, observe will not be called for it again.
func (r *reservations) wrote(pv *v1.PersistentVolume, claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.byVolume[pv.Name]
	if held == nil || held.claim != claim {
		return
	}
	held.written = pv.ResourceVersion
	if now := r.cached.volume(pv.Name); now == nil || !older(now.ResourceVersion, held.written) {
		r.drop(held)
	}
}

// asked records that the claim's selected-node is in the API. If the cache shows
// the write already, observeClaim will not be called for it again.
func (r *reservations) asked(claim *v1.PersistentVolumeClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.byClaim[claim.UID]
	if held == nil || held.volume != "" {
		return
	}
	held.written = claim.ResourceVersion
	if now := r.cached.claim(claim.Namespace, claim.Name); now == nil || now.UID != claim.UID || !older(now.ResourceVersion, held.written) {
		r.drop(held)
	}
}

// observeClaim is called for each change of a claim in the cache.
func (r *reservations) observeClaim(claim *v1.PersistentVolumeClaim, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.byClaim[claim.UID]
	if held == nil || held.volume != "" {
		return
	}
	if deleted || (held.written != "" && !older(claim.ResourceVersion, held.written)) {
		r.drop(held)
	}
}

// observe is called for each change of a volume in the cache.
func (r *reservations) observe(pv *v1.PersistentVolume, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.byVolume[pv.Name]
	if held == nil {
		return
	}
	if deleted || (held.written != "" && !older(pv.ResourceVersion, held.written)) {
		r.drop(held)
	}
}

// count returns how many claims something is promised to.
func (r *reservations) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byClaim)
}

// drop ends a hold, unless that has happened already.
func (r *reservations) drop(held *hold) {
	if r.byClaim[held.claim] != held {
		return
	}
	delete(r.byClaim, held.claim)
	if held.volume != "" {
		delete(r.byVolume, held.volume)
		r.free.release(held.volume)
	}
}

// older tells whether resourceVersion a is older than b. What cannot be
// compared is not older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
