package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// calmTimeout is how long prebind may take to be at rest when all is bound.
const calmTimeout = time.Minute

// live is the workload's life, through trouble and after, until everything is
// bound or time is up.
func (r *run) live(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	start := time.Now()
	r.keeper.start = start
	group.Go(func() error { r.keeper.keep(ctx); return nil })
	group.Go(func() error { r.witness.run(ctx); return nil })
	for _, p := range r.programs {
		group.Go(func() error { return p.run(ctx, start) })
	}
	group.Go(func() error { r.status(ctx); return nil })
	group.Go(func() error {
		defer end()
		if err := r.trouble(ctx, start); err != nil {
			return err
		}
		return r.settle(ctx)
	})
	return group.Wait()
}

// status prints how far the pods are.
func (r *run) status(ctx context.Context) {
	every(ctx, time.Second, func() {
		p := r.view.progress(r.possible)
		r.out.Status("%6.1fs  %d of %d pods bound, %d wait, %d not there", time.Since(r.start).Seconds(), p.bound, len(r.possible), p.waiting, p.absent)
	})
}

// trouble returns when its time is over and each program has had its deaths.
// The programs then run, and the proxies are calm.
func (r *run) trouble(ctx context.Context, start time.Time) error {
	group, troubled := errgroup.WithContext(ctx)
	troubled, calm := context.WithCancel(troubled)
	defer calm()
	for _, replica := range r.replicas {
		disturb(replica.proxy)
		group.Go(func() error { replica.trouble.run(troubled); return nil })
	}
	group.Go(func() error { r.deleter.run(troubled); return nil })
	pause(ctx, r.opts.For)
	for _, p := range r.programs {
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}
	calm()
	_ = group.Wait() // nothing in it returns an error
	for _, replica := range r.replicas {
		replica.proxy.Calm()
	}
	r.countFaults()
	r.report.Trouble = time.Since(start)
	r.log("the trouble is over")
	return context.Cause(ctx)
}

// settle waits until all is bound, or time is up: that is for the checks to tell.
func (r *run) settle(ctx context.Context) error {
	start := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, r.opts.Settle, true, func(context.Context) (bool, error) {
		return r.view.progress(r.possible).bound == len(r.possible) && r.view.unsettled(r.workload) == 0, nil
	})
	r.report.Settled = time.Since(start)
	if err != nil && ctx.Err() == nil {
		p := r.view.progress(r.possible)
		r.log("%d of %d pods are not bound %s after the trouble; %d volumes or claims are not settled",
			len(r.possible)-p.bound, len(r.possible), r.opts.Settle, r.view.unsettled(r.workload))
		return nil
	}
	if err == nil {
		r.log("all %d pods are bound", len(r.possible))
	}
	return err
}

// check fills the report's checks.
func (r *run) check(ctx context.Context) error {
	calls, err := countCalls(r.replicas)
	if err != nil {
		return err
	}
	r.report.BindCalls, r.report.Retries = calls.outcomes, calls.retries
	state, err := readState(ctx, r.cp.Client(), r.namespace)
	if err != nil {
		return err
	}
	r.report.Checks = state.checks(r.possible)
	memory, err := r.checkMemory(ctx)
	if err != nil {
		return err
	}
	r.report.Checks = append(r.report.Checks, memory)
	leaks, err := r.checkGoroutines(ctx)
	if err != nil {
		return err
	}
	var deaths, races []string
	for _, replica := range r.replicas {
		if n := r.report.Ended[replica.prebind.Name()]; n > 0 {
			deaths = append(deaths, fmt.Sprintf("%s ended %d times", replica.prebind.Name(), n))
		}
		races = append(races, replica.races()...)
	}
	r.report.Checks = append(r.report.Checks, leaks, Check{"no pod was seen bound before its claims were", r.witness.failures}, Check{"no prebind ended by itself", deaths}, Check{"no data race was seen", races})
	return nil
}

// checkMemory checks that nothing is left in the replicas once nobody asks
// anything of them.
func (r *run) checkMemory(ctx context.Context) (Check, error) {
	// Pods that cannot be bound would be tried for ever.
	err := r.cp.Client().CoreV1().Pods(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
		FieldSelector: "spec.nodeName=",
	})
	if err != nil {
		return Check{}, fmt.Errorf("deleting the pods that are not bound: %w", err)
	}
	check := Check{Name: "no call is running and no volume is reserved in memory"}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, calmTimeout, true, func(ctx context.Context) (bool, error) {
		last = nil
		for _, replica := range r.replicas {
			last = errors.Join(last, replica.atRest(ctx))
		}
		return last == nil, nil
	})
	if ctx.Err() != nil {
		return check, context.Cause(ctx)
	}
	if err != nil {
		check.Failures = []string{last.Error()}
	}
	return check, nil
}

// checkGoroutines compares the replicas' goroutines with those of one that was just
// started. It ends the replicas.
func (r *run) checkGoroutines(ctx context.Context) (Check, error) {
	check := Check{Name: "no goroutine is left over"}
	fresh, err := startReplica(ctx, r.cp, "prebind-fresh", r.opts.Seed)
	if err != nil {
		return check, err
	}
	defer fresh.proxy.Stop()
	want, err := fresh.end(ctx)
	if err != nil {
		return check, err
	}
	for _, replica := range r.replicas {
		have, err := replica.end(ctx)
		if err != nil {
			return check, err
		}
		for _, leak := range have.leaked(want) {
			check.Failures = append(check.Failures, replica.prebind.Name()+": "+leak)
		}
	}
	return check, nil
}

// end ends the replica and returns the goroutines it had.
func (r *replica) end(ctx context.Context) (goroutines, error) {
	dump, err := r.prebind.Abort(ctx)
	if err != nil {
		return goroutines{}, err
	}
	return parseGoroutines(dump)
}
