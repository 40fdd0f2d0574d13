package faultproxy

import (
	"context"
	"net/http"
	"sync"
)

// watches are the watches that are open, and what keeps them from going on.
type watches struct {
	mu    sync.Mutex
	open  map[*openWatch]bool
	holds map[*WatchHold]bool
}

type openWatch struct {
	request Request
	cut     context.CancelFunc
}

// WatchHold keeps watches from delivering.
type WatchHold struct {
	match   Match
	watches *watches
	once    sync.Once
	free    chan struct{} // closed by Release
}

// HoldWatches makes the watches that match, open or to come, deliver nothing
// until Release: the client's cache lags. Nothing is lost.
func (p *Proxy) HoldWatches(m Match) *WatchHold {
	hold := &WatchHold{match: m, watches: &p.watches, free: make(chan struct{})}
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	p.watches.holds[hold] = true
	return hold
}

// Release lets the watches go on with what they have missed.
func (h *WatchHold) Release() {
	h.once.Do(func() {
		h.watches.mu.Lock()
		defer h.watches.mu.Unlock()
		delete(h.watches.holds, h)
		close(h.free)
	})
}

// CutWatches closes the connection of the open watches that match and returns
// how many there were. Clients come back with a new watch.
func (p *Proxy) CutWatches(m Match) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for w := range p.watches.open {
		if m.matches(&w.request) {
			w.cut()
			n++
		}
	}
	return n
}

// OpenWatches returns how many watches that match are open.
func (p *Proxy) OpenWatches(m Match) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for w := range p.watches.open {
		if m.matches(&w.request) {
			n++
		}
	}
	return n
}

func (ws *watches) enter(r Request, cut context.CancelFunc) (leave func()) {
	w := &openWatch{request: r, cut: cut}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.open[w] = true
	return func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		delete(ws.open, w)
	}
}

// wait blocks while the watch is held.
func (ws *watches) wait(ctx context.Context, r *Request) error {
	for {
		hold := ws.held(r)
		if hold == nil {
			return nil
		}
		select {
		case <-hold.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (ws *watches) held(r *Request) *WatchHold {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for hold := range ws.holds {
		if hold.match.matches(r) {
			return hold
		}
	}
	return nil
}

// watchWriter hands on what a watch delivers, unless it is held.
type watchWriter struct {
	http.ResponseWriter
	ctx     context.Context
	request Request
	watches *watches
}

// Unwrap lets http.ResponseController find Flush.
func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchWriter) Write(data []byte) (int, error) {
	if err := w.watches.wait(w.ctx, &w.request); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(data)
}
