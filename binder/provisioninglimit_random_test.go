package binder_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/testkit"
)

// backEnd makes a volume some time after it was asked, and counts how many claims
// of each class it is at work on.
type backEnd struct {
	*env
	pause func() time.Duration
	works sync.WaitGroup

	mu   sync.Mutex
	busy map[string]int // by class
	most map[string]int // of busy
}

// watch has the back end take up each claim whose selected-node is written, at the
// moment at which it is.
func (b *backEnd) watch() {
	b.OnWrite(func(w testkit.Write) {
		claim, ok := w.After.(*v1.PersistentVolumeClaim)
		if !ok || w.Err != nil || claim.Annotations[volume.AnnSelectedNode] == "" || claim.Spec.VolumeName != "" {
			return
		}
		class := volume.GetPersistentVolumeClaimClass(claim)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy[class]++
		b.most[class] = max(b.most[class], b.busy[class])
		pause := b.pause()
		b.works.Go(func() {
			time.Sleep(pause)
			b.mu.Lock()
			b.busy[class]--
			b.mu.Unlock()
			b.Provision(claim.Name, onNode7("pv-"+claim.Name).Class(class))
		})
	})
}

// Many pods with one or two claims each, of classes with and without free volumes:
// the limit is kept at each write, everybody is served, and nothing is left. The
// same when callers give up and try again.
func TestProvisioningLimitHolds(t *testing.T) {
	limits := map[string]int{"fast": 2, "slow": 1, "mixed": 2}
	most := map[string]int{}
	for _, givesUp := range []bool{false, true} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("givesUp %t, seed %d", givesUp, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					for class, busy := range mostInProvisioning(t, givesUp, rand.New(rand.NewPCG(seed, 0))) {
						if busy > limits[class] {
							t.Errorf("class %s: %d claims were in provisioning, limit %d", class, busy, limits[class])
						}
						most[class] = max(most[class], busy)
					}
				})
			})
		}
	}
	// A single run may miss it: who comes first is for the Go scheduler to say.
	if diff := cmp.Diff(limits, most); diff != "" {
		t.Errorf("the most that were in provisioning in any run (-limits +most):\n%s", diff)
	}
}

// mostInProvisioning binds 80 pods at a back end that takes its time, and returns how
// many claims of each class were with it at once.
func mostInProvisioning(t *testing.T, givesUp bool, random *rand.Rand) map[string]int {
	t.Helper()
	const pods = 80
	var specs []string
	for i := range pods {
		classes := []string{"fast", "slow", "mixed"}[random.IntN(3)]
		if random.IntN(3) == 0 {
			classes += "," + []string{"fast", "mixed"}[random.IntN(2)]
		}
		specs = append(specs, fmt.Sprintf("p%02d:%s", i, classes))
	}
	e := startLimiting(t, specs...)
	e.Put(testkit.Class("mixed").Provisions("csi.example.com"))
	for i := range 20 {
		e.Put(onNode7(fmt.Sprintf("static-%d", i)).Class("mixed"))
	}
	e.RunPVController()
	var mu sync.Mutex
	draw := func(below time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(below)))
	}
	b := &backEnd{env: e, pause: func() time.Duration { return draw(10 * time.Second) }, busy: map[string]int{}, most: map[string]int{}}
	b.watch()
	synctest.Wait()

	var callers sync.WaitGroup
	for _, spec := range specs {
		name, _, _ := strings.Cut(spec, ":")
		callers.Go(func() {
			time.Sleep(draw(2 * time.Second))
			for {
				ctx, cancel := context.WithCancel(t.Context())
				if givesUp {
					ctx, cancel = context.WithTimeout(t.Context(), draw(2*time.Minute))
				}
				err := e.b.Bind(ctx, request(name))
				cancel()
				if err == nil {
					return
				}
				if !givesUp {
					t.Errorf("pod %s: %s", name, text(err))
					return
				}
				time.Sleep(time.Second)
			}
		})
	}
	callers.Wait()
	b.works.Wait()
	e.idle()
	return b.most
}
