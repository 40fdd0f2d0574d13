package binder

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/instrument"
)

const (
	// turnKept is how long a pod whose call ended while it waited keeps its turn.
	// kube-scheduler tries again within ten seconds, as a rule.
	turnKept = time.Minute
	// sweepEvery is how often it is looked for what is too old.
	sweepEvery = 10 * time.Second
)

// places are how many claims of a class may be in provisioning at once, and who
// has them. A call asks with a ticket for all that its pod needs. It gets all of it
// at once, or nothing and waits, in the order in which the pods came. So nobody
// who waits keeps a place from another, and a pod that needs many is not passed
// by those that need few. A claim that the API shows to be with its provisioner has
// a place without being asked for: after a restart, from another replica, of a call
// that has ended. Safe for parallel use.
type places struct {
	limit     func(class string) int // 0: none
	abandoned time.Duration          // how long a place counts that no call has

	mu      sync.Mutex // short: no I/O, no calls out but of limit
	byClaim map[types.UID]*place
	inUse   map[string]int // by class
	wanted  map[string]int // by class: claims of waiting tickets
	waiting []*ticket      // by turn
	last    uint64         // turn given
	kept    map[types.UID]keptTurn
	swept   time.Time // when what is too old was forgotten
	classes instrument.Classes
	labels  map[string]bool // in metrics so far
}

// place is a claim in provisioning. Pods that share the claim share its place.
type place struct {
	want
	holders int       // calls that have it
	shown   bool      // the API shows that the claim is with its provisioner
	idle    time.Time // since when no call has it, if holders is 0
}

// want is a claim that needs a place.
type want struct {
	claim types.UID
	name  string // namespace/name, for messages
	class string
}

// ticket is what one call has of the places, and what it waits for.
type ticket struct {
	pod   types.UID
	turn  uint64
	has   []*place      // guarded by places.mu
	wants []want        // guarded by places.mu; empty: it does not wait
	ready chan struct{} // closed when it does not wait; replaced by ask alone
}

// keptTurn is the turn of a pod whose call has ended.
type keptTurn struct {
	turn uint64
	at   time.Time
}

func newPlaces(limit func(class string) int, abandoned time.Duration) *places {
	return &places{
		limit: limit, abandoned: abandoned, byClaim: map[types.UID]*place{}, inUse: map[string]int{}, wanted: map[string]int{},
		kept: map[types.UID]keptTurn{}, labels: map[string]bool{},
	}
}

// ticket returns the ticket of a call that begins: with a turn after all others,
// unless its pod has waited before. It must be left in the end.
func (p *places) ticket(pod types.UID) *ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &ticket{pod: pod, ready: make(chan struct{})}
	close(t.ready)
	if before, ok := p.kept[pod]; ok && time.Since(before.at) < turnKept {
		t.turn = before.turn
	} else {
		p.last++
		t.turn = p.last
	}
	delete(p.kept, pod)
	return t
}

// ask makes the places of the ticket those of the claims given, and tells whether it
// has them all. underWay are with their provisioner already: they count, whatever
// the limit. For the others the ticket waits (until ready is closed), and has none
// of them meanwhile, unless it has them all already. It may be asked again, for
// something else; the turn stays.
func (p *places) ask(t *ticket, underWay, others []want) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep()
	others = slices.DeleteFunc(others, func(w want) bool { return p.limit(w.class) == 0 })
	if len(t.wants) > 0 && slices.Equal(t.wants, others) && len(underWay) == len(t.has) {
		return false // nothing new
	}
	had := t.has
	covered := !slices.ContainsFunc(others, func(w want) bool { return !holds(had, w.claim) })
	t.has = nil
	for _, w := range underWay {
		if p.limit(w.class) > 0 {
			p.take(t, w)
		}
	}
	if covered {
		for _, w := range others {
			p.take(t, w)
		}
		others = nil
	}
	for _, old := range had { // after the taking: what stays is never free in between
		p.giveBack(old)
	}
	p.wait(t, others)
	p.dispatch()
	return len(t.wants) == 0
}

func holds(has []*place, claim types.UID) bool {
	return slices.ContainsFunc(has, func(have *place) bool { return have.claim == claim })
}

// leave gives everything back. A pod that was still waiting keeps its turn for its
// next call.
func (p *places) leave(t *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(t.wants) > 0 {
		p.kept[t.pod] = keptTurn{t.turn, time.Now()}
	}
	p.wait(t, nil)
	for _, held := range t.has {
		p.giveBack(held)
	}
	t.has = nil
	p.dispatch()
}

// wait puts the ticket in the line for what it wants, in place of what it wanted;
// for nothing it takes it out.
func (p *places) wait(t *ticket, wants []want) {
	at, inLine := p.find(t)
	switch {
	case len(wants) == 0 && inLine:
		p.waiting = slices.Delete(p.waiting, at, at+1)
		close(t.ready)
	case len(wants) > 0 && !inLine:
		p.waiting = slices.Insert(p.waiting, at, t)
		t.ready = make(chan struct{})
	}
	for _, w := range t.wants {
		less(p.wanted, w.class)
	}
	for _, w := range wants {
		p.wanted[w.class]++
	}
	t.wants = wants
}

// find returns where the ticket is in the line, or would be.
func (p *places) find(t *ticket) (int, bool) {
	return slices.BinarySearchFunc(p.waiting, t, func(a, b *ticket) int { return cmp.Compare(a.turn, b.turn) })
}

// dispatch gives places to those in the line whose turn it is: who can have all
// that it wants, and has nobody before it that waits for a place of these classes.
func (p *places) dispatch() {
	blocked := map[string]bool{} // classes for which somebody waits
	left := p.waiting[:0]
	for i, t := range p.waiting {
		if len(blocked) == len(p.wanted) { // as in a long line for one class
			left = append(left, p.waiting[i:]...)
			break
		}
		if !p.fits(t, blocked) {
			left = append(left, t)
			continue
		}
		for _, w := range t.wants {
			p.take(t, w)
			less(p.wanted, w.class)
		}
		t.wants = nil
		close(t.ready)
	}
	clear(p.waiting[len(left):])
	p.waiting = left
}

// fits tells whether the ticket can have all that it wants; if not, its classes are
// blocked for those behind it. A pod that wants more than there can be gets it when
// nobody else has anything.
func (p *places) fits(t *ticket, blocked map[string]bool) bool {
	fits := true
	for i, w := range t.wants {
		if p.byClaim[w.claim] != nil { // for a pod that shares the claim
			continue
		}
		n := 1 // of this class, up to here
		for _, before := range t.wants[:i] {
			if before.class == w.class && p.byClaim[before.claim] == nil {
				n++
			}
		}
		used := p.inUse[w.class]
		if blocked[w.class] || (used > 0 && used+n > p.limit(w.class)) {
			fits = false
		}
	}
	if !fits {
		for _, w := range t.wants {
			if p.byClaim[w.claim] == nil {
				blocked[w.class] = true
			}
		}
	}
	return fits
}
