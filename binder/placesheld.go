package binder

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// seen takes note of a claim as the API shows it: with its provisioner or not, or
// over, which takes its place back from all who have it.
func (p *places) seen(w want, underWay, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.byClaim[w.claim]
	switch {
	case held == nil && (over || !underWay || p.limit(w.class) == 0):
		return // as of most claims
	case over:
		p.free(held)
	case underWay:
		p.place(w).shown = true
	default: // given back by the provisioner, or not asked for yet
		held.shown = false
		p.freeUnused(held)
	}
	p.dispatch()
}

// place returns the claim's place, a new one if there is none.
func (p *places) place(w want) *place {
	held := p.byClaim[w.claim]
	if held == nil {
		held = &place{want: w, idle: time.Now()}
		p.byClaim[w.claim] = held
		p.inUse[w.class]++
	}
	return held
}

// take gives the ticket the claim's place.
func (p *places) take(t *ticket, w want) {
	held := p.place(w)
	held.holders++
	t.has = append(t.has, held)
}

func (p *places) giveBack(held *place) {
	if held.holders--; held.holders == 0 {
		held.idle = time.Now()
		p.freeUnused(held)
	}
}

func (p *places) freeUnused(held *place) {
	if held.holders == 0 && !held.shown {
		p.free(held)
	}
}

// free ends a place, unless that has happened already.
func (p *places) free(held *place) {
	if p.byClaim[held.claim] == held {
		delete(p.byClaim, held.claim)
		less(p.inUse, held.class)
	}
}

// sweep forgets, now and then, the turns and the places that are too old: those of
// pods and claims that nobody takes care of any more.
func (p *places) sweep() {
	now := time.Now()
	if now.Sub(p.swept) < sweepEvery {
		return
	}
	p.swept = now
	maps.DeleteFunc(p.kept, func(_ types.UID, kept keptTurn) bool { return now.Sub(kept.at) >= turnKept })
	for _, held := range p.byClaim {
		if held.holders == 0 && now.Sub(held.idle) >= p.abandoned {
			p.free(held)
		}
	}
	p.dispatch()
}

// less counts one down, and forgets a count of nothing.
func less(counts map[string]int, class string) {
	if counts[class]--; counts[class] == 0 {
		delete(counts, class)
	}
}
