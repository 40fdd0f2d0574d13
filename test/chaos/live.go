package chaos

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

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
		r.out.Status("%6.1fs  %d of %d pods bound, %d wait, %d not there",
			time.Since(r.start).Seconds(), p.bound, len(r.possible), p.waiting, p.absent)
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
