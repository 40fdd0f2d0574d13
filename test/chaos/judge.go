package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// calmTimeout is how long prebind may take to be at rest when all is bound.
const calmTimeout = time.Minute

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
	r.report.Checks = append(r.report.Checks, leaks,
		Check{"no pod was seen bound before its claims were", r.witness.failures},
		Check{"no prebind ended by itself", deaths},
		Check{"no data race was seen", races})
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
		var now error
		for _, replica := range r.replicas {
			now = errors.Join(now, replica.atRest(ctx))
		}
		if ctx.Err() == nil { // else it tells only that
			last = now
		}
		return now == nil, nil
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
	fresh, err := startReplica(ctx, r.cp, "prebind-fresh", &r.opts)
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
