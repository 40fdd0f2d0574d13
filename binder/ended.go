package binder

import (
	"sync"
	"time"

	"github.com/prebind/prebind/internal/fault"
)

// maxEnded is how many bind calls that have ended are remembered, of those that
// bound their pod and of those that failed.
const maxEnded = 50

// maxEndedClaims bounds what is remembered of a pod with hundreds of claims.
const maxEndedClaims = 16

// Ended is a bind call that has ended.
type Ended struct {
	Request Request
	Began   time.Time
	Took    time.Duration
	// Outcome is as in the log: bound, alreadyBound or error.
	Outcome string
	// Reason and Error are set after an error.
	Reason fault.Code
	Error  string
	// Claims are the namespace/name of the pod's claims, up to 16.
	Claims []string
	// Joined tells that the result is that of another call for the same pod.
	Joined bool
	// Stages are in the order in which they ran.
	Stages []StageTime
}

// StageTime is how long a stage took.
type StageTime struct {
	Stage Stage
	Took  time.Duration
}

// Bound lists the last 50 bind calls after which the pod was on its node, the
// newest first.
func (b *Binder) Bound() []Ended { return b.bound.list() }

// Failed lists the last 50 bind calls that ended with an error, the newest first.
func (b *Binder) Failed() []Ended { return b.failed.list() }

// remember keeps a call that has ended.
func (b *Binder) remember(call Ended) {
	if call.Outcome == outcomeError {
		b.failed.add(call)
		return
	}
	b.bound.add(call)
}

// lastCalls is a ring of the last calls.
type lastCalls struct {
	mu    sync.Mutex
	calls [maxEnded]Ended
	count int // of all that were ever added
}

func (r *lastCalls) add(call Ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[r.count%maxEnded] = call
	r.count++
}

func (r *lastCalls) list() []Ended {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Ended, 0, min(r.count, maxEnded))
	for n := r.count - 1; n >= max(0, r.count-maxEnded); n-- {
		all = append(all, r.calls[n%maxEnded])
	}
	return all
}
