package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/build"
)

// series is one variant in one scenario, under way.
type series struct {
	*lab
	scenario  scenario
	variant   variant
	namespace string
	pods      int
	watch     *boundWatch
	created   []time.Time // by pod
	began     time.Time   // of the time that the rate is over; zero: the first pod's creation

	cpuBegan, cpuBound cpuTimes     // before the first pod's creation, and when all are bound
	filterCalls        *filterCalls // if the scenario asks for them
}

func podName(i int) string { return fmt.Sprintf("pod-%04d", i) }

func (r *series) do(ctx context.Context) (measurement, error) {
	var err error
	if r.scenario.Kind == burst {
		if err := r.createClaims(ctx); err != nil {
			return measurement{}, err
		}
	}
	if r.watch, err = watchBound(ctx, r.client, r.namespace); err != nil {
		return measurement{}, err
	}
	defer r.watch.stop()
	if err := r.calm(ctx); err != nil {
		return measurement{}, err
	}
	before, err := r.counters(ctx)
	if err != nil {
		return measurement{}, err
	}
	r.created = make([]time.Time, r.pods)
	r.cpuBegan = r.cpuTimes()
	switch {
	case r.scenario.Kind == onebyone:
		err = r.oneByOne(ctx)
	case r.scenario.ProbeFilter:
		err = r.probed(ctx)
	default:
		err = r.atOnce(ctx)
	}
	if err != nil {
		return measurement{}, err
	}
	r.cpuBound = r.cpuTimes()
	if err := r.awaitSettled(ctx); err != nil {
		return measurement{}, err
	}
	settled := time.Since(r.created[0])
	after, err := r.counters(ctx)
	if err != nil {
		return measurement{}, err
	}
	m := r.result(before, after)
	if r.prebind != nil {
		lines, err := r.prebind.Logs()
		if err != nil {
			return m, err
		}
		m.Stages, m.FailedBinds = medianStages(lines), failedBinds(lines)
	}
	if r.scenario.Kind != plain {
		m.SettledSeconds = settled.Seconds()
	}
	return m, nil
}

func (r *series) createClaims(ctx context.Context) error {
	return r.parallel(ctx, "claims made", r.pods, r.createClaim)
}

func (r *series) createClaim(ctx context.Context, i int) error {
	_, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).Create(ctx, r.claim(r.namespace, podName(i), i), metav1.CreateOptions{})
	return err
}

func (r *series) createPod(ctx context.Context, i int) error {
	pod := build.Pod(r.namespace, podName(i))
	if r.scenario.Kind != plain {
		pod.Claim(podName(i))
	}
	r.created[i] = time.Now()
	_, err := r.client.CoreV1().Pods(r.namespace).Create(ctx, pod.Obj(), metav1.CreateOptions{})
	return err
}

// atOnce creates all pods as fast as may be and waits until they are bound. Pods
// without claims are bound faster than they can be created, so the scheduler is
// halted until all are there.
func (r *series) atOnce(ctx context.Context) error {
	if r.scenario.Kind == plain {
		if err := r.cp.Scheduler().Freeze(); err != nil {
			return err
		}
	}
	r.cpuBegan = r.cpuTimes()
	if err := r.parallel(ctx, "pods made", r.pods, r.createPod); err != nil {
		return fmt.Errorf("creating pods: %w", err)
	}
	if r.scenario.Kind == plain {
		r.began, r.cpuBegan = time.Now(), r.cpuTimes()
		if err := r.cp.Scheduler().Thaw(); err != nil {
			return err
		}
	}
	for i := range r.pods {
		if err := r.await(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// await returns when pod i was bound. It fails when no pod at all is for a while.
func (r *series) await(ctx context.Context, i int) error {
	err := r.watch.wait(ctx, podName(i), stall, func(count int) {
		r.out.Status("  %-16s %d of %d pods bound", r.variant, count, r.pods)
	})
	if err != nil {
		return fmt.Errorf("%w; its events:\n%s", err, r.cp.DescribeEvents(r.namespace, podName(i)))
	}
	return nil
}

// oneByOne creates each pod when the one before is bound, and not before the
// pace allows it. Its claim is there for a moment by then.
func (r *series) oneByOne(ctx context.Context) error {
	next := time.Now()
	for i := range r.pods {
		if err := pause(ctx, next.Add(-claimLead)); err != nil {
			return err
		}
		if err := r.createClaim(ctx, i); err != nil {
			return err
		}
		if err := pause(ctx, time.Now().Add(claimLead)); err != nil {
			return err
		}
		if err := r.createPod(ctx, i); err != nil {
			return fmt.Errorf("creating pod %s: %w", podName(i), err)
		}
		next = r.created[i].Add(r.scenario.Pace)
		if err := r.await(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// awaitSettled waits until all claims are Bound: with direct completion the PV
// controller has still to write that.
func (r *series) awaitSettled(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, settleTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		bound := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		r.out.Status("  %-16s all bound; %d of %d claims settled", r.variant, bound, len(list.Items))
		return bound == len(list.Items), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for claims to be Bound: %w", err)
	}
	return nil
}

// pause waits until a moment.
func pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
