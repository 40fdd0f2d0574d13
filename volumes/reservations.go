package volumes

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// reservations are the volumes that this process has promised to claims and
// that the cache does not yet show as claimed. They keep the pods of one
// replica from choosing the same volume; between replicas, and against
// anybody else, only the resourceVersion of the write does.
//
// A reservation lives from reserve until release, or, once the claimRef is
// written, until the cache shows that write (observe). It is never needed for
// correctness afterwards and never outlives its volume.
type reservations struct {
	// cached returns the volume as the cache has it now, or nil.
	cached func(name string) *v1.PersistentVolume

	mu       sync.Mutex // short: no I/O, no calls out
	byVolume map[string]*hold
	byClaim  map[types.UID]*hold
}

// hold is the promise of one volume to one claim. A call that has a share of
// it keeps the pointer: the same volume promised to the same claim once more,
// after this one was dropped, is another hold, and none of its business.
type hold struct {
	volume string
	claim  types.UID
	// holders counts the calls that have a share: pods may share a claim.
	holders int
	// written is the volume's resourceVersion after the claimRef was
	// written, or empty.
	written string
}

func newReservations(cached func(name string) *v1.PersistentVolume) *reservations {
	return &reservations{cached: cached, byVolume: map[string]*hold{}, byClaim: map[types.UID]*hold{}}
}

// open returns those of the free volumes that may be planned for the claim:
// all that are not reserved, or, if the claim holds one already, that one
// alone, since a claim that pods share must not be promised two.
func (r *reservations) open(claim types.UID, free []*v1.PersistentVolume) []*v1.PersistentVolume {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.byClaim[claim]
	kept := free[:0]
	for _, pv := range free {
		if r.byVolume[pv.Name] == own {
			kept = append(kept, pv)
		}
	}
	return kept
}

// reserve holds every binding's volume for its claim, or none of them: false
// means that another call was faster and the plan must be made again: it holds
// a volume, or had held it, and the cache shows its write by now. The caller gets a share of each hold, in the order of the bindings.
func (r *reservations) reserve(bindings []Binding) ([]*hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range bindings {
		if held := r.byVolume[b.Volume.Name]; held != nil && held.claim != b.Claim.UID {
			return nil, false
		}
		if now := r.cached(b.Volume.Name); now != nil && now.Spec.ClaimRef != nil && now.Spec.ClaimRef.UID != b.Claim.UID {
			return nil, false
		}
		if own := r.byClaim[b.Claim.UID]; own != nil && own.volume != b.Volume.Name {
			return nil, false
		}
	}
	holds := make([]*hold, 0, len(bindings))
	for _, b := range bindings {
		held := r.byVolume[b.Volume.Name]
		if held == nil {
			held = &hold{volume: b.Volume.Name, claim: b.Claim.UID}
			r.byVolume[held.volume], r.byClaim[held.claim] = held, held
		}
		held.holders++
		holds = append(holds, held)
	}
	return holds, true
}

// release gives one share up. A volume whose claimRef was written stays
// reserved until the cache shows it.
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
	return r.byVolume[share.volume] == share
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
	if now := r.cached(pv.Name); now == nil || !older(now.ResourceVersion, held.written) {
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

// count returns how many volumes are reserved.
func (r *reservations) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byVolume)
}

// drop ends a hold, unless that has happened already.
func (r *reservations) drop(held *hold) {
	if r.byVolume[held.volume] == held {
		delete(r.byVolume, held.volume)
		delete(r.byClaim, held.claim)
	}
}

// older tells whether resourceVersion a is older than b. What cannot be
// compared is not older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
