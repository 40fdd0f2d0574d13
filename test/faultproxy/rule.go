package faultproxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
)

// Rule says which requests are disturbed, and how.
type Rule struct {
	Match Match
	// Skip lets that many matching requests pass first.
	Skip int
	// Times is how many requests to disturb; 0 means all until Stop.
	Times int
	// Share is the part of the matching requests to disturb, between 0 and 1;
	// 0 means all. Which ones depends on the proxy's seed, the request's verb
	// and object, and on how often it has come, and on nothing else: not on
	// what other requests come between.
	Share float64
	// Do is what happens. Required.
	Do Action
}

// Disturbance is a rule at work.
type Disturbance struct {
	rule  Rule
	index int // among the proxy's rules, for the dice
	proxy *Proxy
	gate  chan struct{} // closed by Release; a Hold waits for it

	mu      sync.Mutex
	seen    map[string]int // matching requests so far, by verb and object
	matched int
	hits    int
	changed chan struct{} // closed and replaced at each hit
	stopped bool
}

// take tells whether the request is to be disturbed, and counts it.
func (d *Disturbance) take(r *Request) bool {
	if !d.rule.Match.matches(r) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := r.Verb + " " + r.Object()
	nth := d.seen[key]
	d.seen[key]++
	d.matched++
	switch {
	case d.stopped,
		d.matched <= d.rule.Skip,
		d.rule.Times > 0 && d.hits >= d.rule.Times,
		d.rule.Share > 0 && dice(d.proxy.opts.Seed, d.index, key, nth) >= d.rule.Share:
		return false
	}
	d.hits++
	close(d.changed)
	d.changed = make(chan struct{})
	return true
}

// dice is a number between 0 and 1, the same for the same arguments.
func dice(seed uint64, rule int, key string, nth int) float64 {
	hash := fnv.New64a()
	var numbers [24]byte
	binary.LittleEndian.PutUint64(numbers[0:], seed)
	binary.LittleEndian.PutUint64(numbers[8:], uint64(rule))
	binary.LittleEndian.PutUint64(numbers[16:], uint64(nth))
	_, _ = hash.Write(numbers[:])
	_, _ = hash.Write([]byte(key))
	// FNV's high bits hardly depend on its last bytes: mix them once more.
	sum := hash.Sum64()
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return float64(sum) / math.MaxUint64
}

// Hits returns how many requests have been disturbed.
func (d *Disturbance) Hits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hits
}

// WaitHits returns when at least n requests have been disturbed. A request
// counts from the moment the proxy has it: one that is held has arrived, one
// whose answer is lost may not be committed yet.
func (d *Disturbance) WaitHits(ctx context.Context, n int) error {
	for {
		d.mu.Lock()
		hits, changed := d.hits, d.changed
		d.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d requests to be disturbed, %d were: %w", n, hits, ctx.Err())
		}
	}
}

// Release lets the requests go on that a Hold keeps, and those that come.
func (d *Disturbance) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.gate:
	default:
		close(d.gate)
	}
}

// Stop ends the disturbance; what it holds is released.
func (d *Disturbance) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.Release()
}
