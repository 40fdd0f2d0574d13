package volumes

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/testkit"
)

func promise(claim, pv string) Binding {
	return Binding{Claim: testkit.Claim(claim).PersistentVolumeClaim, Volume: testkit.Volume(pv).PersistentVolume}
}

func at(pv, version string) *v1.PersistentVolume {
	volume := testkit.Volume(pv).PersistentVolume
	volume.ResourceVersion = version
	return volume
}

// cachedAt is a cache that has the volume in this version; "" is not at all.
func cachedAt(version string) cachedVolumes {
	return func(name string) *v1.PersistentVolume {
		if version == "" {
			return nil
		}
		return at(name, version)
	}
}

// cachedVolumes is a cache that has volumes and no claims.
type cachedVolumes func(name string) *v1.PersistentVolume

func (c cachedVolumes) volume(name string) *v1.PersistentVolume { return c(name) }

func (cachedVolumes) claim(string, string) *v1.PersistentVolumeClaim { return nil }

// held returns the claim that each volume is promised to.
func (r *reservations) held() map[string]types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := map[string]types.UID{}
	for name, reservation := range r.byVolume {
		held[name] = reservation.claim
		if r.byClaim[reservation.claim] != reservation {
			held[name] = "not in byClaim"
		}
	}
	if len(r.byClaim) != len(r.byVolume) {
		held["byClaim"] = types.UID(fmt.Sprint(len(r.byClaim)))
	}
	return held
}

func TestReservations(t *testing.T) {
	a, b := testkit.UID("a"), testkit.UID("b")
	tests := map[string]struct {
		do   func(t *testing.T, r *reservations)
		want map[string]types.UID
	}{
		"a volume is promised once": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				reserve(t, r, false, promise("b", "pv-1"))
			}, map[string]types.UID{"pv-1": a},
		},
		"a claim is promised one volume": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				reserve(t, r, false, promise("a", "pv-2"))
			}, map[string]types.UID{"pv-1": a},
		},
		"all volumes of a pod are held, or none": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("b", "pv-2"))
				reserve(t, r, false, promise("a", "pv-1"), promise("c", "pv-2"))
				reserve(t, r, true, promise("d", "pv-1"))
			}, map[string]types.UID{"pv-1": testkit.UID("d"), "pv-2": b},
		},
		"what is released can be promised again": {
			func(t *testing.T, r *reservations) {
				r.release(reserve(t, r, true, promise("a", "pv-1"))[0])
				reserve(t, r, true, promise("b", "pv-1"))
			}, map[string]types.UID{"pv-1": b},
		},
		"a hold that is gone can not release the one that came after it": {
			func(t *testing.T, r *reservations) {
				first, second := reserve(t, r, true, promise("a", "pv-1"))[0], reserve(t, r, true, promise("a", "pv-1"))[0]
				r.lost(first)
				reserve(t, r, true, promise("a", "pv-1"))
				r.release(second)
				reserve(t, r, false, promise("b", "pv-1"))
			}, map[string]types.UID{"pv-1": a},
		},
		"a hold that is gone can not lose the one that came after it": {
			func(t *testing.T, r *reservations) {
				first := reserve(t, r, true, promise("a", "pv-1"))[0]
				r.observe(at("pv-1", "9"), true)
				reserve(t, r, true, promise("b", "pv-1"))
				r.lost(first)
			}, map[string]types.UID{"pv-1": b},
		},
		"a claim that two pods share is held until both have let go": {
			func(t *testing.T, r *reservations) {
				first, second := reserve(t, r, true, promise("a", "pv-1"))[0], reserve(t, r, true, promise("a", "pv-1"))[0]
				r.release(first)
				reserve(t, r, false, promise("b", "pv-1"))
				r.release(second)
			}, map[string]types.UID{},
		},
		"a written volume is held until the cache shows the write": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.wrote(at("pv-1", "20"), a)
				r.observe(at("pv-1", "19"), false)
				reserve(t, r, false, promise("b", "pv-1"))
				r.observe(at("pv-1", "20"), false)
			}, map[string]types.UID{},
		},
		"a later version shows the write too": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.wrote(at("pv-1", "99"), a)
				r.observe(at("pv-1", "100"), false)
			}, map[string]types.UID{},
		},
		"a written volume outlives its holders until then": {
			func(t *testing.T, r *reservations) {
				held := reserve(t, r, true, promise("a", "pv-1"))[0]
				r.wrote(at("pv-1", "20"), a)
				r.release(held)
			}, map[string]types.UID{"pv-1": a},
		},
		"the cache may show the write before its answer comes": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.observe(at("pv-1", "20"), false)
				r.cached = cachedAt("20")
				r.wrote(at("pv-1", "20"), a)
			}, map[string]types.UID{},
		},
		"a volume that left the cache before the answer came": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.cached = cachedAt("")
				r.wrote(at("pv-1", "20"), a)
			}, map[string]types.UID{},
		},
		"a write for a claim that holds nothing changes nothing": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.cached = cachedAt("")
				r.wrote(at("pv-1", "20"), b)
				r.cached = cachedAt("")
				r.wrote(at("pv-2", "20"), b)
			}, map[string]types.UID{"pv-1": a},
		},
		"a plan that was made before a hold that has come and gone": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.wrote(at("pv-1", "20"), a)
				r.cached = cachedVolumes(func(string) *v1.PersistentVolume {
					return testkit.Volume("pv-1").ClaimedBy(testkit.Claim("a")).PersistentVolume
				})
				r.observe(at("pv-1", "20"), false)
				reserve(t, r, false, promise("b", "pv-1"))
			}, map[string]types.UID{},
		},
		"a change by others does not end a promise": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"))
				r.observe(at("pv-1", "20"), false)
			}, map[string]types.UID{"pv-1": a},
		},
		"a deleted volume is promised no more": {
			func(t *testing.T, r *reservations) {
				reserve(t, r, true, promise("a", "pv-1"), promise("b", "pv-2"))
				r.wrote(at("pv-2", "20"), b)
				r.observe(at("pv-1", "9"), true)
				r.observe(at("pv-2", "9"), true)
				r.observe(at("pv-3", "9"), true)
			}, map[string]types.UID{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReservations(cachedAt("9"), newFreeIndex(cachedAt("9")))
			tc.do(t, r)
			if diff := cmp.Diff(tc.want, r.held()); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if r.count() != len(tc.want) {
				t.Errorf("count() = %d, want %d", r.count(), len(tc.want))
			}
		})
	}
}

func reserve(t *testing.T, r *reservations, want bool, bindings ...Binding) []*hold {
	t.Helper()
	holds, got := r.reserve("node-7", bindings)
	if got != want || (got && len(holds) != len(bindings)) {
		t.Fatalf("reserve() = %v, %v, want %v; held: %v", holds, got, want, r.held())
	}
	return holds
}

func TestReservationsOpenHidesWhatIsPromised(t *testing.T) {
	r := newReservations(cachedAt("9"), newFreeIndex(cachedAt("9")))
	reserve(t, r, true, promise("a", "pv-1"))
	for claim, want := range map[string][]string{"a": {"pv-1"}, "b": {"pv-2", "pv-3"}} {
		var got []string
		for _, pv := range r.open(testkit.UID(claim), []*v1.PersistentVolume{at("pv-1", "1"), at("pv-2", "1"), at("pv-3", "1")}) {
			got = append(got, pv.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("open for claim %s (-want +got):\n%s", claim, diff)
		}
	}
}

// TestReservationsUnderLoad has many calls choose among few volumes. Each call
// notes in owner, which knows nothing of reservations, what it believes to
// hold: no volume may ever have two owners.
func TestReservationsUnderLoad(t *testing.T) {
	const callers, rounds, pool = 32, 150, 12
	r := newReservations(cachedAt("9"), newFreeIndex(cachedAt("9")))
	owner := make([]atomic.Int64, pool)
	var version, won atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for round := range rounds {
				bindings := choose(r, random, fmt.Sprintf("c-%d-%d", caller, round), pool)
				holds, ok := r.reserve("node-7", bindings)
				if !ok {
					continue
				}
				won.Add(1)
				for _, b := range bindings {
					if before := owner[index(b)].Swap(int64(caller) + 1); before != 0 {
						t.Errorf("%s is promised to callers %d and %d", b.Volume.Name, before-1, caller)
					}
				}
				for n, b := range bindings {
					owner[index(b)].Store(0)
					end(r, random, b, holds[n], &version)
				}
			}
		})
	}
	group.Wait()
	if held := r.held(); len(held) != 0 || won.Load() == 0 {
		t.Errorf("%d reservations won; still held: %v", won.Load(), held)
	}
}

// choose picks one to three volumes, each for a claim of its own. The list that
// it picks from may be outdated by the time it is used.
func choose(r *reservations, random *rand.Rand, claim string, pool int) []Binding {
	var all []*v1.PersistentVolume
	for i := range pool {
		all = append(all, at(fmt.Sprintf("pv-%d", i), "1"))
	}
	open := r.open(testkit.UID(claim), all)
	random.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	var bindings []Binding
	for i := range min(len(open), 1+random.IntN(3)) {
		bindings = append(bindings, promise(fmt.Sprintf("%s-%d", claim, i), open[i].Name))
	}
	return bindings
}

// end lets go in one of the ways that there are.
func end(r *reservations, random *rand.Rand, b Binding, held *hold, version *atomic.Int64) {
	written := at(b.Volume.Name, fmt.Sprint(1000+version.Add(1)))
	switch random.IntN(3) {
	case 0: // written, then seen
		r.wrote(written, b.Claim.UID)
		r.observe(written, false)
	case 1: // deleted
		r.observe(written, true)
	default:
		r.release(held)
	}
}

func index(b Binding) (i int) {
	if _, err := fmt.Sscanf(b.Volume.Name, "pv-%d", &i); err != nil {
		panic(err)
	}
	return i
}

// TestReservationsOfASharedClaim has many pods that share one claim choose at
// the same time: all get the same volume.
func TestReservationsOfASharedClaim(t *testing.T) {
	const pods = 64
	r := newReservations(cachedAt("9"), newFreeIndex(cachedAt("9")))
	volumes := make(chan *hold, pods)
	start := make(chan struct{})
	var group sync.WaitGroup
	for pod := range pods {
		group.Go(func() {
			<-start
			for {
				free := []*v1.PersistentVolume{at("pv-0", "1"), at("pv-1", "1"), at("pv-2", "1")}
				open := r.open(testkit.UID("shared"), free)
				chosen := promise("shared", open[pod%len(open)].Name)
				if holds, ok := r.reserve("node-7", []Binding{chosen}); ok {
					volumes <- holds[0]
					return
				}
			}
		})
	}
	close(start)
	group.Wait()
	first := <-volumes
	for range pods - 1 {
		if other := <-volumes; other != first {
			t.Fatalf("the claim is promised %s and %s", first.volume, other.volume)
		}
	}
	for range pods {
		reserve(t, r, false, promise("other", first.volume))
		r.release(first)
	}
	if r.count() != 0 {
		t.Errorf("still held: %v", r.held())
	}
}
