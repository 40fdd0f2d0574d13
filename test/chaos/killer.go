package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

const (
	// leastKills is how often each program is killed at least.
	leastKills = 2
	// killEvery is how often a program is killed in a long run.
	killEvery = 40 * time.Second
	// returnTimeout is how long a program may take to come back; its start fails
	// while the API server is away.
	returnTimeout = 3 * time.Minute
)

// kill is one planned death.
type kill struct {
	at   time.Duration // from the start of the trouble
	down time.Duration // before it is started again
}

// planKills draws when a program is killed: once in each equal part of the
// window, so that it is killed early and late.
func planKills(r *rand.Rand, window, leastDown, mostDown time.Duration) []kill {
	n := max(leastKills, int(window/killEvery))
	part := window / time.Duration(n)
	var kills []kill
	for i := range n {
		at := time.Duration(i)*part + between(r, part/8, part*7/8)
		kills = append(kills, kill{at: at, down: between(r, leastDown, mostDown)})
	}
	return kills
}

// program is one that is killed. A program that ends by itself is started again too.
type program struct {
	*controlplane.Process
	kills []kill
	log   func(format string, args ...any)

	killed atomic.Int64
	ended  atomic.Int64  // by itself
	done   chan struct{} // closed after the last planned death
}

// programs returns all that are killed, with their plans.
func programs(cp *controlplane.ControlPlane, replicas []*replica, opts *Options, log func(string, ...any)) []*program {
	var all []*program
	add := func(process *controlplane.Process, leastDown, mostDown time.Duration) {
		kills := planKills(dice(opts.Seed, "kill "+process.Name()), opts.For, leastDown, mostDown)
		all = append(all, &program{Process: process, kills: kills, log: log, done: make(chan struct{})})
	}
	for _, r := range replicas {
		add(r.prebind.Process, 0, 2*time.Second)
	}
	add(cp.Scheduler(), 0, 2*time.Second)
	add(cp.ControllerManager(), 0, 3*time.Second)
	add(cp.APIServer(), time.Second, 5*time.Second)
	return all
}

// run kills the program as planned and keeps it running otherwise, until ctx
// ends. The error is that of a program that does not come back.
func (p *program) run(ctx context.Context, start time.Time) error {
	plan := slices.Clone(p.kills)
	for {
		var next <-chan time.Time
		if len(plan) > 0 {
			next = time.After(time.Until(start.Add(plan[0].at)))
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-next:
			if err = p.kill(ctx, plan[0]); err == nil {
				p.killed.Add(1)
			}
			if plan = plan[1:]; len(plan) == 0 {
				close(p.done)
			}
		case <-p.Done():
			p.ended.Add(1)
			p.log("%s ended by itself: %v", p.Name(), p.Err())
			err = p.comeBack(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (p *program) kill(ctx context.Context, k kill) error {
	if err := p.Kill(); err != nil {
		return err
	}
	since := time.Now()
	if !pause(ctx, k.down) {
		return nil
	}
	if err := p.comeBack(ctx); err != nil {
		return err
	}
	p.log("killed %s, back after %.1fs", p.Name(), time.Since(since).Seconds())
	return nil
}

// comeBack starts the program until it serves.
func (p *program) comeBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	for {
		err := p.Start(ctx)
		if err == nil || !pause(ctx, 200*time.Millisecond) {
			return err
		}
	}
}
