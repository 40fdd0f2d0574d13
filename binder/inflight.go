package binder

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/fault"
)

// inflight lets one cycle run per pod UID at a time. kube-scheduler calls
// again after its time-out, maybe for another node, while the first call may
// still be at work here.
type inflight struct {
	mu     sync.Mutex
	cycles map[types.UID]*flight
}

// flight is one running cycle and the callers that wait for it.
type flight struct {
	node    string
	cancel  context.CancelCauseFunc
	callers int           // guarded by inflight.mu; 0: nobody waits, it is ending
	done    chan struct{} // closed after err is set
	err     error
}

// part is what a call had in a cycle.
type part int

const (
	partNone   part = iota // it ended before any began
	partOwn                // the cycle was run for it, and writes its log line
	partJoined             // it got the result of another call's cycle
)

// do runs cycle, or joins the one that runs for the same pod and node. A
// cycle for another node is waited for first. ctx is the caller's: when the
// last caller of a cycle has gone, the cycle's context ends with CallerGone.
func (f *inflight) do(ctx, base context.Context, req *Request, cycle func(ctx context.Context) error) (part, error) {
	for {
		if ctx.Err() != nil {
			return partNone, callerGone(ctx)
		}
		current, own := f.enter(base, req, cycle)
		if !own && (current.node != req.Node || !f.join(current)) {
			// Another node, or a cycle that is ending since its caller has gone.
			select {
			case <-current.done:
				continue
			case <-ctx.Done():
				return partNone, callerGone(ctx)
			}
		}
		taken := partJoined
		if own {
			taken = partOwn
		}
		select {
		case <-current.done:
			return taken, current.err
		case <-ctx.Done():
			f.leave(ctx, current)
			return taken, callerGone(ctx)
		}
	}
}

// enter returns the running cycle of the pod, or starts one with one caller.
func (f *inflight) enter(base context.Context, req *Request, cycle func(ctx context.Context) error) (current *flight, own bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if current, ok := f.cycles[req.UID]; ok {
		return current, false
	}
	cycleCtx, cancel := context.WithCancelCause(base)
	current = &flight{node: req.Node, cancel: cancel, callers: 1, done: make(chan struct{})}
	f.cycles[req.UID] = current
	go func() {
		defer cancel(nil)
		err := cycle(cycleCtx)
		f.mu.Lock()
		delete(f.cycles, req.UID)
		f.mu.Unlock()
		current.err = err
		close(current.done)
	}()
	return current, true
}

func (f *inflight) join(current *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if current.callers == 0 {
		return false
	}
	current.callers++
	return true
}

func (f *inflight) leave(ctx context.Context, current *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current.callers--
	if current.callers == 0 {
		current.cancel(callerGone(ctx))
	}
}

// wait returns when no cycle runs.
func (f *inflight) wait(ctx context.Context) error {
	for {
		f.mu.Lock()
		running := len(f.cycles)
		var done chan struct{} // of any
		for _, current := range f.cycles {
			done = current.done
			break
		}
		f.mu.Unlock()
		if running == 0 {
			return nil
		}
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d bind calls to end: %w", running, ctx.Err())
		}
	}
}

func callerGone(ctx context.Context) error {
	return fault.New(fault.CallerGone, "the scheduler has hung up (is its httpTimeout longer than volumes.bindTimeout?): %w", ctx.Err())
}
