package volumes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/testkit"
)

// The model of two replicas on one API: a replica promises a volume to one
// claim at a time, and the API knows one claim for each volume, for ever,
// since nobody resets anything here.
const (
	bothReplicas = 2
	someVolumes  = 4
	someClaims   = 4
)

// placed is the state.
type placed struct {
	owner    [someVolumes]int8 // claim in the API; 0: none
	promised [bothReplicas][someVolumes]struct {
		claim int8
		calls uint64 // bit set of the calls that hold it
		kept  bool   // the replica knows that the API shows it
	}
}

type placedOp struct {
	name    string
	replica int
	call    int
	pairs   []want
}

func (s placed) step(op placedOp) (bool, placed) {
	for _, w := range op.pairs {
		owner, promise := &s.owner[w.pv], &s.promised[op.replica][w.pv]
		switch op.name {
		case "reserve", "take":
			if promise.claim != 0 && promise.claim != w.claim {
				return false, s
			}
			promise.claim = w.claim
			promise.calls |= 1 << op.call
		case "drop", "lost": // given back; lost to somebody else, by all calls that share it
			if promise.claim != w.claim {
				break // another call has lost it before
			}
			promise.calls &^= 1 << op.call
			if op.name == "lost" {
				promise.calls = 0
			}
			if promise.calls == 0 && !promise.kept {
				promise.claim = 0
			}
		case "write": // accepted by the API server
			if *owner != 0 {
				return false, s
			}
			*owner = w.claim
		case "settle": // the call knows that the volume is the claim's
			if *owner != w.claim {
				return false, s
			}
			if promise.claim == 0 || promise.claim == w.claim { // else the other claim is about to lose it
				promise.claim, promise.kept = w.claim, true
			}
		}
	}
	return true, s
}

func placedModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return placed{} },
		Step: func(state, input, _ any) (bool, any) { return state.(placed).step(input.(placedOp)) },
		DescribeOperation: func(input, _ any) string {
			op := input.(placedOp)
			return fmt.Sprintf("replica %d, call %d: %s %v", op.replica, op.call, op.name, op.pairs)
		},
		DescribeState: func(state any) string {
			var text strings.Builder
			s := state.(placed)
			for pv := range s.owner {
				fmt.Fprintf(&text, "pv-%d: claim %d in the API, promised to %d and %d\n", pv, s.owner[pv], s.promised[0][pv].claim, s.promised[1][pv].claim)
			}
			return text.String()
		},
	}
}

// holdings are the volumes that a reservation holds, and those that it knows
// to be its claims'.
func holdings(r *Reservation) (held, settled map[want]bool) {
	held, settled = map[want]bool{}, map[want]bool{}
	for _, i := range r.items {
		if i.volume == nil {
			continue
		}
		var w want
		_, _ = fmt.Sscanf(i.claim.Name, "c-%d", &w.claim)
		_, _ = fmt.Sscanf(i.volume.Name, "pv-%d", &w.pv)
		switch {
		case i.hold != nil:
			held[w] = true
		case owns(i.claim, i.volume):
			settled[w] = true
		}
	}
	return held, settled
}

func list(pairs, but map[want]bool) []want {
	var all []want
	for w := range pairs {
		if !but[w] {
			all = append(all, w)
		}
	}
	return all
}

// modelReplica is a Prebinder whose every step is noted.
type modelReplica struct {
	*Prebinder
	id      int
	client  *testkit.Client
	history *history
}

// bind is a whole bind call. A Bind may lose volumes and take others, at any
// moment of its time: each is an operation of its own with that time.
func (r *modelReplica) bind(ctx context.Context, call int, pod *v1.Pod) {
	note := func(name string, from int64, pairs ...want) {
		if len(pairs) > 0 {
			r.history.note(call, placedOp{name, r.id, call, pairs}, nil, from, r.history.clock.Add(1))
		}
	}
	noteEach := func(name string, from int64, pairs, but map[want]bool) {
		for _, w := range list(pairs, but) {
			note(name, from, w)
		}
	}
	began := r.history.clock.Add(1)
	reservation, err := r.Reserve(ctx, pod, "n-1")
	if err != nil {
		return
	}
	before, _ := holdings(reservation)
	note("reserve", began, list(before, nil)...)
	began = r.history.clock.Add(1)
	_ = r.Bind(ctx, pod, reservation)
	after, settled := holdings(reservation)
	noteEach("take", began, after, before)
	noteEach("settle", began, settled, nil)
	for w := range settled { // no longer the call's, and not given back
		delete(before, w)
	}
	noteEach("lost", began, before, after)
	began = r.history.clock.Add(1)
	r.Unreserve(reservation)
	noteEach("drop", began, after, nil)
}

// TestNoVolumeIsPromisedTwice has the calls of two replicas, whose caches lag,
// compete for few volumes.
func TestNoVolumeIsPromisedTwice(t *testing.T) {
	settled := 0
	for seed := range modelSeeds(t, 150, 5_000) {
		h := &history{}
		synctest.Test(t, func(t *testing.T) { playReplicas(t, seed, h) })
		h.check(t, seed, placedModel())
		for _, op := range h.ops {
			if op.Input.(placedOp).name == "settle" {
				settled++
			}
		}
	}
	if settled == 0 {
		t.Error("no call has got a volume")
	}
}

func playReplicas(t *testing.T, seed uint64, h *history) {
	api := testkit.NewAPI(t, testkit.Node("n-1"), testkit.Class("local"))
	for n := range someVolumes {
		api.Put(testkit.Volume(fmt.Sprint("pv-", n)).OnHost("n-1"))
	}
	for n := range someClaims {
		api.Put(testkit.Claim(fmt.Sprint("c-", n+1)))
	}
	api.OnWrite(func(w testkit.Write) {
		if w.Err == nil {
			var pair want
			after := w.After.(*v1.PersistentVolume)
			_, _ = fmt.Sscanf(after.Spec.ClaimRef.Name, "c-%d", &pair.claim)
			_, _ = fmt.Sscanf(after.Name, "pv-%d", &pair.pv)
			h.note(0, placedOp{"write", 0, 0, []want{pair}}, nil, h.clock.Add(1), h.clock.Add(1))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var replicas [bothReplicas]*modelReplica
	for id := range replicas {
		client := api.NewClient()
		caches, err := NewCaches(client)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(Config{Client: client, Caches: caches})
		if err != nil {
			t.Fatal(err)
		}
		caches.Start(ctx)
		replicas[id] = &modelReplica{p, id, client, h}
	}
	defer func() {
		stop()
		for _, r := range replicas {
			r.caches.Wait()
		}
	}()
	synctest.Wait()
	random := rand.New(rand.NewPCG(seed, 0))
	var group sync.WaitGroup
	for call := 1; call <= 8; call++ {
		r := replicas[random.IntN(bothReplicas)]
		pod := testkit.Pod(fmt.Sprint("p-", call))
		for _, n := range random.Perm(someClaims)[:1+random.IntN(2)] {
			pod.Uses(fmt.Sprint("c-", n+1))
		}
		api.Put(pod)
		pause, patience := time.Duration(random.IntN(3))*time.Millisecond, time.Duration(random.IntN(30))*time.Millisecond
		group.Go(func() {
			time.Sleep(pause)
			ctx, cancel := context.WithTimeout(ctx, patience+time.Millisecond)
			defer cancel()
			r.bind(ctx, call, api.Pod(pod.Name))
		})
		if random.IntN(2) == 0 {
			r.client.Hold("persistentvolumes")
		}
		if random.IntN(3) == 0 {
			r.client.Advance("persistentvolumes", 1+random.IntN(3))
		}
	}
	group.Wait()
	for _, r := range replicas {
		r.client.Release("persistentvolumes")
		synctest.Wait()
		if n := r.Reserved(); n != 0 {
			t.Errorf("seed %d: at rest replica %d has %d reservations", seed, r.id, n)
		}
	}
}
