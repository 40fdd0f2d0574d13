package binder

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestPlaces checks, over random histories, what must be true of the places at every
// moment: the counts are those of the places, nobody who waits could be served, and
// who waits has only what is under way. Where nobody wants more than one place, and
// nothing is under way without a place, the limit is never exceeded.
func TestPlaces(t *testing.T) {
	limits := ProvisioningLimits{PerClass: 3, Classes: map[string]int{"one": 1, "free": 0}}
	classes := []string{"one", "three", "free"}
	wantOf := func(n int) want { return want{claim: types.UID(fmt.Sprint(n)), class: classes[n%3]} }
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces(limits.of, time.Hour)
		single := rapid.Bool().Draw(t, "single")
		var tickets []*ticket
		asked := map[*ticket]*history{}
		drawWants := func(t *rapid.T) []want {
			most := 5
			if single {
				most = 1
			}
			return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) want {
				return wantOf(rapid.IntRange(0, 14).Draw(t, "claim"))
			}), 0, most, func(w want) types.UID { return w.claim }).Draw(t, "wants")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { checkPlaces(t, p, single, tickets, asked) },
			"ask": func(t *rapid.T) {
				i := rapid.IntRange(0, len(tickets)).Draw(t, "ticket")
				if i == len(tickets) {
					tickets = append(tickets, p.ticket(types.UID(fmt.Sprint("pod-", rapid.IntRange(0, 99).Draw(t, "pod"), "-", i))))
				}
				wants, n := drawWants(t), 0
				if !single {
					n = rapid.IntRange(0, min(1, len(wants))).Draw(t, "under way")
				}
				asked[tickets[i]] = &history{underWay: wants[:n]}
				ready := p.ask(tickets[i], wants[:n], append([]want(nil), wants[n:]...))
				if open := isOpen(tickets[i]); ready == open {
					t.Fatalf("ask answered %t, ready is open: %t", ready, open)
				}
			},
			"leave": func(t *rapid.T) {
				if len(tickets) == 0 {
					t.Skip("nobody is there")
				}
				i := rapid.IntRange(0, len(tickets)-1).Draw(t, "ticket")
				p.leave(tickets[i])
				tickets = append(tickets[:i], tickets[i+1:]...)
			},
			"seen": func(t *rapid.T) {
				w := wantOf(rapid.IntRange(0, 14).Draw(t, "claim"))
				underWay := rapid.Bool().Draw(t, "under way")
				if single && underWay && p.byClaim[w.claim] == nil {
					t.Skip("another replica's")
				}
				p.seen(w, underWay, rapid.Bool().Draw(t, "over"))
			},
		})
		for _, ticket := range tickets {
			p.leave(ticket)
		}
		for n := range 15 {
			p.seen(wantOf(n), true, true)
		}
		if len(p.byClaim)+len(p.inUse)+len(p.wanted)+len(p.waiting) > 0 {
			t.Fatalf("left behind: places %v, in use %v, wanted %v, %d tickets", p.byClaim, p.inUse, p.wanted, len(p.waiting))
		}
	})
}

// history is what a ticket was asked for last.
type history struct{ underWay []want }

func isOpen(t *ticket) bool {
	select {
	case <-t.ready:
		return false
	default:
		return true
	}
}

func checkPlaces(t *rapid.T, p *places, single bool, tickets []*ticket, asked map[*ticket]*history) {
	used := map[string]int{}
	for claim, held := range p.byClaim {
		used[held.class]++
		if held.claim != claim || (held.holders == 0 && !held.shown) {
			t.Fatalf("place of claim %s: %+v", claim, *held)
		}
	}
	for _, class := range []string{"one", "three", "free"} {
		if p.inUse[class] != used[class] {
			t.Fatalf("class %s: %d in use, %d places", class, p.inUse[class], used[class])
		}
		if single && used[class] > p.limit(class) {
			t.Fatalf("class %s: %d in use, limit %d", class, used[class], p.limit(class))
		}
	}
	for _, ticket := range tickets {
		underWay := asked[ticket].underWay
		if waits := len(ticket.wants) > 0; waits != isOpen(ticket) || (waits && len(ticket.has) > len(underWay)) {
			t.Fatalf("a ticket wants %v and has %d places, %d claims under way, waits: %t", ticket.wants, len(ticket.has), len(underWay), isOpen(ticket))
		}
	}
	ahead := map[string]bool{} // classes that somebody before waits for
	for _, waiting := range p.waiting {
		first := true
		for _, w := range waiting.wants {
			first = first && !ahead[w.class]
		}
		if first && p.fits(waiting, map[string]bool{}) {
			t.Fatalf("a ticket waits for %v, and could have it: in use %v", waiting.wants, p.inUse)
		}
		for _, w := range waiting.wants {
			ahead[w.class] = true
		}
	}
}
