package binder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/tracing"
	"github.com/prebind/prebind/volumes"
)

// maxPermits bounds how often a call is permitted anew because more was reserved
// than before. Each time others got on meanwhile, so nothing near it is ever needed.
const maxPermits = 1000

// cycle takes one call through the stages:
//
//	admit -> permit -> reserve -> preBind -> bind -> postBind
//
// After a failure from reserve on, the reserve plugins are unreserved, newest
// first.
func (b *Binder) cycle(ctx context.Context, r *report) error {
	call, err := b.runAdmit(ctx, r)
	if err != nil || call == nil {
		return err
	}
	bound := false
	call.nomination = b.nominate(ctx, call)
	defer func() { call.nomination.end(ctx, bound) }()
	defer call.end()
	if err := b.permitAndReserve(ctx, r, call); err != nil {
		return err
	}
	err = b.runPreBind(ctx, r, call)
	if err == nil {
		call.nomination.stop()
		err = b.runBind(ctx, r, call)
	}
	if err != nil {
		b.runUnreserve(ctx, r, call, len(b.plugins.reserve))
		return err
	}
	bound = true
	b.runPostBind(ctx, r, call)
	b.tellBound(call, time.Since(r.start))
	return nil
}

// permitAndReserve goes back to permit for as long as more is reserved than was
// permitted. After an error nothing is reserved.
func (b *Binder) permitAndReserve(ctx context.Context, r *report, call *Call) error {
	for range maxPermits {
		if err := b.runPermit(ctx, r, call); err != nil {
			return err
		}
		reserved, err := b.runReserve(ctx, r, call)
		within := false
		if err == nil {
			within, err = b.review(ctx, call)
		}
		if within {
			return nil
		}
		b.runUnreserve(ctx, r, call, reserved)
		if err != nil {
			return err
		}
	}
	return fault.New(fault.Internal, "pod %s/%s: more was reserved than was permitted, %d times", call.Pod.Namespace, call.Pod.Name, maxPermits)
}

// review asks the permit plugins about what has been reserved.
func (b *Binder) review(ctx context.Context, call *Call) (within bool, err error) {
	for _, plugin := range b.plugins.permit {
		reviewer, ok := plugin.(PermitReviewer)
		if !ok {
			continue
		}
		err := b.guard(ctx, func() error { within = reviewer.Review(call); return nil })
		if err != nil || !within {
			return false, err
		}
	}
	return true, nil
}

// runAdmit returns no call, and no error, for a pod that is on the node
// already.
func (b *Binder) runAdmit(ctx context.Context, r *report) (call *Call, err error) {
	ctx, done := b.beginStage(ctx, r, stageAdmit)
	defer func() { done(err) }()
	pod, assigned, err := b.admit(ctx, r.req)
	if err != nil {
		return nil, err
	}
	if assigned {
		r.already = true
		return nil, nil
	}
	r.claims = volumes.ClaimNames(pod)
	return &Call{Pod: pod, Node: r.req.Node}, nil
}

func (b *Binder) runPermit(ctx context.Context, r *report, call *Call) (err error) {
	ctx, done := b.beginStage(ctx, r, Permit)
	defer func() { done(err) }()
	for _, plugin := range b.plugins.permit {
		if err := b.runPlugin(ctx, Permit, plugin, func() error { return plugin.Permit(ctx, call) }); err != nil {
			return err
		}
	}
	return nil
}

// runReserve returns how many plugins are to be unreserved: all that ran, the
// one that failed among them.
func (b *Binder) runReserve(ctx context.Context, r *report, call *Call) (reserved int, err error) {
	ctx, done := b.beginStage(ctx, r, Reserve)
	defer func() { done(err) }()
	for i, plugin := range b.plugins.reserve {
		if err := b.runPlugin(ctx, Reserve, plugin, func() error { return plugin.Reserve(ctx, call) }); err != nil {
			return i + 1, err
		}
	}
	return len(b.plugins.reserve), nil
}

func (b *Binder) runPreBind(ctx context.Context, r *report, call *Call) (err error) {
	ctx, done := b.beginStage(ctx, r, PreBind)
	defer func() { done(err) }()
	for _, plugin := range b.plugins.preBind {
		if err := b.runPlugin(ctx, PreBind, plugin, func() error { return plugin.PreBind(ctx, call) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *Binder) runBind(ctx context.Context, r *report, call *Call) (err error) {
	ctx, done := b.beginStage(ctx, r, Bind)
	defer func() { done(err) }()
	for _, plugin := range b.plugins.bind {
		err := b.runPlugin(ctx, Bind, plugin, func() error { return plugin.Bind(ctx, call) })
		if !errors.Is(err, ErrSkip) {
			return err
		}
	}
	return fault.New(fault.Internal, "pod %s/%s: every bind plugin skipped it", call.Pod.Namespace, call.Pod.Name)
}

func (b *Binder) runPostBind(ctx context.Context, r *report, call *Call) {
	ctx, done := b.beginStage(ctx, r, PostBind)
	defer done(nil)
	for _, plugin := range b.plugins.postBind {
		// It has no error to return.
		_ = b.runPlugin(ctx, PostBind, plugin, func() error { plugin.PostBind(ctx, call); return nil })
	}
}

// runUnreserve heeds no deadline: it must run whatever has ended.
func (b *Binder) runUnreserve(ctx context.Context, r *report, call *Call, reserved int) {
	ctx, done := b.beginStage(context.WithoutCancel(ctx), r, stageUnreserve)
	defer done(nil)
	for i := reserved - 1; i >= 0; i-- {
		plugin := b.plugins.reserve[i]
		_ = b.runPlugin(ctx, stageUnreserve, plugin, func() error { plugin.Unreserve(ctx, call); return nil })
	}
}

// runPlugin times one plugin and puts its name before its error.
func (b *Binder) runPlugin(ctx context.Context, stage Stage, plugin Plugin, run func() error) error {
	if ctx.Err() != nil && stage != PostBind {
		return context.Cause(ctx)
	}
	start := time.Now()
	err := b.guard(ctx, run)
	result := resultSuccess
	switch {
	case stage == Bind && errors.Is(err, ErrSkip):
		result = resultSkip
	case err != nil:
		result = resultError
		err = fmt.Errorf("running %s plugin %q: %w", stage.title(), plugin.Name(), withCause(ctx, err))
	}
	b.metrics.pluginDuration.WithLabelValues(string(stage), plugin.Name(), result).Observe(time.Since(start).Seconds())
	return err
}

// guard turns a plugin's panic into an error, so that what was reserved is
// given back as after any other failure.
func (b *Binder) guard(ctx context.Context, run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = b.panicked(ctx, p)
		}
	}()
	return run()
}

// beginStage starts the stage's clock and span; the function returned stops them, with
// what the stage ended with.
func (b *Binder) beginStage(ctx context.Context, r *report, stage Stage) (context.Context, func(error)) {
	b.running.enter(r, stage)
	start := time.Now()
	ctx, span := tracing.Start(ctx, string(stage))
	return ctx, func(err error) {
		took, result := time.Since(start), resultSuccess
		if err != nil {
			result = resultError
		}
		span.End(err)
		r.add(stage, took)
		b.metrics.stageDuration.WithLabelValues(string(stage), result).Observe(took.Seconds())
	}
}
