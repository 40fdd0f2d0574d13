package main

import (
	"net/http"
	"sync"
	"time"
)

// How many writes to volumes and claims are under way at once, and for how long
// one counts.
const (
	writeTurns = 32
	turnLength = time.Second
)

// turns is a transport that sends few writes at a time. Thousands at once are
// served no sooner than a few dozen, and each Binding would stand behind all of
// them in the API server. A write that takes longer than its turn goes on, but
// no longer counts: slow or hanging ones do not keep the others back.
type turns struct {
	next   http.RoundTripper
	taken  chan struct{} // holds one per write that counts
	length time.Duration
}

func newTurns(next http.RoundTripper, atOnce int, length time.Duration) *turns {
	return &turns{next: next, taken: make(chan struct{}, atOnce), length: length}
}

// RoundTrip implements http.RoundTripper.
func (t *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	select {
	case t.taken <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTrip asks
		}
		return nil, r.Context().Err()
	}
	end := sync.OnceFunc(func() { <-t.taken })
	defer end()
	defer time.AfterFunc(t.length, end).Stop()
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t *turns) WrappedRoundTripper() http.RoundTripper { return t.next }
