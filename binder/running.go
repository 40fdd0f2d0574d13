package binder

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Running is a bind call that runs.
type Running struct {
	Request Request
	Began   time.Time
	// Stage is the one that it is in, empty before the first.
	Stage Stage
}

// Running lists the bind calls that run at this moment, the longest one first:
// one for each pod, however many callers wait for its result.
func (b *Binder) Running() []Running { return b.running.list() }

// runningCalls are the calls that run.
type runningCalls struct {
	mu     sync.Mutex
	stages map[*report]Stage
}

// enter notes the stage that a call is in.
func (c *runningCalls) enter(r *report, stage Stage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stages[r] = stage
}

func (c *runningCalls) end(r *report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stages, r)
}

func (c *runningCalls) list() []Running {
	c.mu.Lock()
	all := make([]Running, 0, len(c.stages))
	for r, stage := range c.stages {
		all = append(all, Running{Request: r.req, Began: r.start, Stage: stage})
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b Running) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Request.UID, b.Request.UID))
	})
	return all
}
