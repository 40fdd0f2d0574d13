package faultproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Request is one request that came by. Get one from Proxy.Requests.
type Request struct {
	Verb, Resource, Namespace, Name string
	// Query is the raw query string.
	Query string
	// Body of a write.
	Body []byte
	// Status is what the API server answered; 0 if it was not asked or has
	// not answered.
	Status int
	// Answered is what the client was answered; 0 if nothing (yet).
	Answered int
	// Fault is what was done to it; empty: nothing.
	Fault string
	Begin time.Time
	End   time.Time // zero: still under way
}

// Object names the object, as in "persistentvolumes disk-1" or
// "pods/binding shop/db-0".
func (r *Request) Object() string {
	switch {
	case r.Name == "" && r.Namespace == "":
		return r.Resource
	case r.Namespace == "":
		return r.Resource + " " + r.Name
	default:
		return r.Resource + " " + r.Namespace + "/" + r.Name
	}
}

func (r *Request) String() string {
	text := fmt.Sprintf("%s %s -> %d", r.Verb, r.Object(), r.Answered)
	if r.Status != r.Answered {
		text += fmt.Sprintf(" (API server: %d)", r.Status)
	}
	if r.Fault != "" {
		text += " [" + r.Fault + "]"
	}
	return text
}

// log keeps all requests in the order in which they came.
type log struct {
	mu      sync.Mutex
	records []*record
	changed chan struct{} // closed and replaced at each change
}

type record struct {
	log     *log
	request Request // guarded by log.mu
}

func (l *log) add(r Request) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := &record{log: l, request: r}
	l.records = append(l.records, rec)
	l.notify()
	return rec
}

// notify wakes who waits. The caller holds the lock.
func (l *log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (r *record) update(change func(*Request)) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	change(&r.request)
	r.log.notify()
}

func (r *record) snapshot() Request {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.request
}

func (l *log) matching(m Match) ([]Request, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Request
	for _, r := range l.records {
		if m.matches(&r.request) {
			found = append(found, r.request)
		}
	}
	return found, l.changed
}

// Requests returns what has come by so far, oldest first, requests that are
// under way included.
func (p *Proxy) Requests(m Match) []Request {
	found, _ := p.log.matching(m)
	return found
}

// WaitRequests returns when at least n matching requests have ended.
func (p *Proxy) WaitRequests(ctx context.Context, m Match, n int) ([]Request, error) {
	for {
		found, changed := p.log.matching(m)
		ended := slices.DeleteFunc(slices.Clone(found), func(r Request) bool { return r.End.IsZero() })
		if len(ended) >= n {
			return ended, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ended, fmt.Errorf("waiting for %d requests (%+v), %d have ended: %w", n, m, len(ended), ctx.Err())
		}
	}
}

// WritesByObject counts, for each object, the writes that the API server
// carried out (answered 2xx), whatever the client was told.
func (p *Proxy) WritesByObject() map[string]int {
	counts := map[string]int{}
	for _, r := range p.Requests(Match{Verb: Writes}) {
		if r.Status >= 200 && r.Status < 300 {
			counts[r.Verb+" "+r.Object()]++
		}
	}
	return counts
}

// FaultCounts counts what was done to requests, by fault, for a summary.
func (p *Proxy) FaultCounts() map[string]int {
	counts := map[string]int{}
	for _, r := range p.Requests(Match{}) {
		if r.Fault != "" {
			counts[r.Fault]++
		}
	}
	return counts
}
