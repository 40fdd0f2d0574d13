package volumes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/testkit"
)

// The model of reservations: calls hold volumes for claims. A volume is
// promised to one claim at a time, a claim has at most one volume promised.

const modelVolumes = 3 // and as many claims

// promised is the state: what the model knows of each volume.
type promised [modelVolumes]struct {
	claim   int8   // 0: free
	calls   uint64 // bit set of the calls that hold it
	written bool
}

func (s *promised) drop(pv int) { *s = s.without(pv) }

func (s promised) without(pv int) promised {
	s[pv].claim, s[pv].calls, s[pv].written = 0, 0, false
	return s
}

// of returns the volume that is promised to the claim.
func (s *promised) of(claim int8) (pv int, ok bool) {
	for pv := range s {
		if s[pv].claim == claim {
			return pv, true
		}
	}
	return 0, false
}

// reservationOp is one operation on the reservations.
type reservationOp struct {
	name  string
	call  int
	wants []want // of reserve; the others have one
}

type want struct {
	claim int8
	pv    int
}

func (w want) String() string { return fmt.Sprintf("pv-%d for claim %d", w.pv, w.claim) }

// step is the sequential specification. It shares no code with reservations.
func (s promised) step(op reservationOp, output any) (bool, promised) {
	switch w := op.wants[0]; op.name {
	case "open":
		return s.opened(w.claim) == output.(string), s
	case "reserve":
		ok, next := s.reserved(op)
		return ok == output.(bool), next
	case "release":
		if s[w.pv].calls&(1<<op.call) == 0 {
			return true, s
		}
		s[w.pv].calls &^= 1 << op.call
		if s[w.pv].calls == 0 && !s[w.pv].written {
			s.drop(w.pv)
		}
	case "lost": // the call has read live that it can not have the volume
		if s[w.pv].calls&(1<<op.call) != 0 && !s[w.pv].written {
			s.drop(w.pv)
		}
	case "wrote": // the call's claimRef is in the API, and the cache lags
		if s[w.pv].claim == w.claim {
			s[w.pv].written = true
		}
	case "seen": // the cache shows the volume as it is
		if s[w.pv].written {
			s.drop(w.pv)
		}
	case "gone": // the cache shows that the volume was deleted
		s.drop(w.pv)
	}
	return true, s
}

func (s promised) reserved(op reservationOp) (bool, promised) {
	for _, w := range op.wants {
		if pv, has := s.of(w.claim); (has && pv != w.pv) || (s[w.pv].claim != 0 && s[w.pv].claim != w.claim) {
			return false, s
		}
	}
	for _, w := range op.wants {
		s[w.pv].claim = w.claim
		s[w.pv].calls |= 1 << op.call
	}
	return true, s
}

// opened lists the volumes that may be planned for the claim.
func (s promised) opened(claim int8) string {
	var open []string
	own, has := s.of(claim)
	for pv := range s {
		if (has && pv == own) || (!has && s[pv].claim == 0) {
			open = append(open, fmt.Sprintf("pv-%d", pv))
		}
	}
	return strings.Join(open, " ")
}

func reservationsModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return promised{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(promised).step(input.(reservationOp), output)
		},
		DescribeOperation: func(input, output any) string {
			op := input.(reservationOp)
			return fmt.Sprintf("call %d: %s %v -> %v", op.call, op.name, op.wants, output)
		},
		DescribeState: func(state any) string {
			var text []string
			for pv, p := range state.(promised) {
				if p.claim != 0 {
					text = append(text, fmt.Sprintf("pv-%d: claim %d, calls %b, written %v", pv, p.claim, p.calls, p.written))
				}
			}
			return strings.Join(text, "\n")
		},
	}
}

// reservationsUnderTest runs operations on reservations, and notes them.
type reservationsUnderTest struct {
	*reservations
	history *history
}

func (r *reservationsUnderTest) do(client int, op reservationOp, run func() any) any {
	return r.history.run(client, op, run)
}

// call is one bind call's life with the reservations.
func (r *reservationsUnderTest) call(client, id int, random *rand.Rand) {
	wants := r.choose(client, id, random)
	if len(wants) == 0 {
		return
	}
	bindings := make([]Binding, 0, len(wants))
	for _, w := range wants {
		bindings = append(bindings, promise(fmt.Sprint(w.claim), fmt.Sprintf("pv-%d", w.pv)))
	}
	var holds []*hold
	ok := r.do(client, reservationOp{"reserve", id, wants}, func() any {
		var ok bool
		holds, ok = r.reserve("node-7", bindings)
		return ok
	})
	if ok == false {
		return
	}
	for i, w := range wants {
		switch random.IntN(4) {
		case 0:
			r.do(client, reservationOp{"wrote", id, []want{w}}, func() any {
				written := at(bindings[i].Volume.Name, "20")
				r.wrote(written, bindings[i].Claim.UID)
				return nil
			})
		case 1:
			r.do(client, reservationOp{"lost", id, []want{w}}, func() any { r.lost(holds[i]); return nil })
		default:
			r.do(client, reservationOp{"release", id, []want{w}}, func() any { r.release(holds[i]); return nil })
		}
	}
}

// open returns those of the free volumes that may be planned for the claim:
// all that are not reserved, or, if the claim holds one already, that one
// alone. Calls find them by way of promised and the index.
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

// choose asks what is open for one or two claims, and picks from that.
func (r *reservationsUnderTest) choose(client, id int, random *rand.Rand) []want {
	var wants []want
	for _, claim := range random.Perm(modelVolumes)[:1+random.IntN(2)] {
		var pick []*v1.PersistentVolume
		r.do(client, reservationOp{"open", id, []want{{claim: int8(claim + 1)}}}, func() any {
			all := make([]*v1.PersistentVolume, 0, modelVolumes)
			for pv := range modelVolumes {
				all = append(all, at(fmt.Sprintf("pv-%d", pv), "9"))
			}
			pick = r.open(testkit.UID(fmt.Sprint(claim+1)), all)
			var names []string
			for _, pv := range pick {
				names = append(names, pv.Name)
			}
			return strings.Join(names, " ")
		})
		if len(pick) == 0 {
			continue
		}
		w := want{int8(claim + 1), index(Binding{Volume: pick[random.IntN(len(pick))]})}
		if len(wants) == 0 || wants[0].pv != w.pv {
			wants = append(wants, w)
		}
	}
	return wants
}

// watch is what the cache's handlers do meanwhile.
func (r *reservationsUnderTest) watch(client int, random *rand.Rand) {
	pv := random.IntN(modelVolumes)
	op, gone := "seen", random.IntN(8) == 0
	if gone {
		op = "gone"
	}
	r.do(client, reservationOp{op, 0, []want{{pv: pv}}}, func() any {
		r.observe(at(fmt.Sprintf("pv-%d", pv), "20"), gone)
		return nil
	})
}

// TestReservationsAreLinearizable runs many short histories of calls that
// reserve, write, lose and release in parallel, and looks for an order of
// operations in which no volume is promised to two claims.
func TestReservationsAreLinearizable(t *testing.T) {
	const callers, calls = 6, 3
	for seed := range modelSeeds(t, 500, 30_000) {
		h := &history{}
		r := &reservationsUnderTest{reservations: newReservations(cachedAt("9"), newFreeIndex(cachedAt("9"))), history: h}
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(caller)))
				for n := range calls {
					r.call(caller, 1+caller*calls+n, random)
				}
			})
		}
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, callers))
			for range 4 {
				r.watch(callers, random)
			}
		})
		group.Wait()
		h.check(t, seed, reservationsModel())
	}
}
