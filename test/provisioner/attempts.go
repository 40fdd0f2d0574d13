package provisioner

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Attempt is one call to make a volume.
type Attempt struct {
	Claim  *corev1.PersistentVolumeClaim
	Class  *storagev1.StorageClass
	Node   string // that the claim selects; empty for classes that bind at once
	Number int    // 1 for the first attempt for this claim (by UID)
}

// record keeps all attempts and what releases those that wait.
type record struct {
	mu       sync.Mutex
	attempts map[types.NamespacedName][]Attempt
	numbers  map[types.UID]int
	released map[types.NamespacedName]chan struct{} // closed: may go on
	changed  chan struct{}                          // closed and replaced at each attempt
}

func newRecord() *record {
	return &record{
		attempts: map[types.NamespacedName][]Attempt{},
		numbers:  map[types.UID]int{},
		released: map[types.NamespacedName]chan struct{}{},
		changed:  make(chan struct{}),
	}
}

// add numbers an attempt and keeps it.
func (r *record) add(a Attempt) Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.numbers[a.Claim.UID]++
	a.Number = r.numbers[a.Claim.UID]
	name := nameOf(a.Claim)
	r.attempts[name] = append(r.attempts[name], a)
	close(r.changed)
	r.changed = make(chan struct{})
	return a
}

// of returns the attempts for a claim, and a channel that closes at the next
// attempt for any.
func (r *record) of(name types.NamespacedName) ([]Attempt, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Attempt(nil), r.attempts[name]...), r.changed
}

// gate returns the channel that Release closes.
func (r *record) gate(name types.NamespacedName) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	gate, ok := r.released[name]
	if !ok {
		gate = make(chan struct{})
		r.released[name] = gate
	}
	return gate
}

func nameOf(claim *corev1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// Attempts returns the attempts that were made for a claim of this name.
func (p *Provisioner) Attempts(namespace, claim string) []Attempt {
	attempts, _ := p.record.of(types.NamespacedName{Namespace: namespace, Name: claim})
	return attempts
}

// WaitAttempt returns the nth attempt for a claim of this name once it has begun.
func (p *Provisioner) WaitAttempt(ctx context.Context, namespace, claim string, n int) (Attempt, error) {
	for {
		attempts, changed := p.record.of(types.NamespacedName{Namespace: namespace, Name: claim})
		if len(attempts) >= n {
			return attempts[n-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Attempt{}, fmt.Errorf("waiting for attempt %d to provision claim %s/%s, there were %d: %w", n, namespace, claim, len(attempts), ctx.Err())
		}
	}
}

// Release lets all attempts for a claim of this name go on that wait, or will
// wait, because of the parameter Hold.
func (p *Provisioner) Release(namespace, claim string) {
	gate := p.record.gate(types.NamespacedName{Namespace: namespace, Name: claim})
	select {
	case <-gate:
	default:
		close(gate)
	}
}
