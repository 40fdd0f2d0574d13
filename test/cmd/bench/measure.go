package main

import (
	"context"
	"fmt"
	"maps"
	"time"
)

const (
	// claimLead is how long before its pod a claim is created, so that every
	// cache has it by then and the binding is all that is measured.
	claimLead = 300 * time.Millisecond
	// stall is how long nothing may happen before a series is given up.
	stall = 2 * time.Minute
	// settleTimeout is how long the PV controller may take to finish the claims.
	settleTimeout = 3 * time.Minute
)

// measurement is one variant in one scenario.
type measurement struct {
	Variant variant `json:"variant"`
	// Error tells why there is nothing else.
	Error string `json:"error,omitempty"`
	Pods  int    `json:"pods,omitempty"`
	// PodsPerSecond is from the first pod's creation to the last one's binding.
	// Pods without claims are all there before the scheduler may begin, and the
	// rate is from then on. Pods that come one by one have none.
	PodsPerSecond float64 `json:"podsPerSecond,omitempty"`
	// Latency is from just before the call that creates a pod to its binding.
	Latency summary `json:"latency"`
	// FilterMilliseconds and SchedulingMilliseconds are what the scheduler has
	// spent a pod in its Filter plugins, and in its whole scheduling algorithm,
	// extenders' filter and prioritize included. Failed attempts count.
	FilterMilliseconds     float64 `json:"filterMillisecondsPerPod"`
	SchedulingMilliseconds float64 `json:"schedulingMillisecondsPerPod"`
	FailedAttempts         float64 `json:"failedAttemptsPerPod"`
	// Writes are API requests a pod until the PV controller had finished, the
	// creation of the pod itself, events and leases left out.
	Writes   float64            `json:"writesPerPod"`
	WritesBy map[string]float64 `json:"writesPerPodByRequest,omitempty"`
	Events   float64            `json:"eventWritesPerPod"`
	// SettledSeconds is from the first pod's creation until all claims are Bound.
	SettledSeconds float64 `json:"settledSeconds,omitempty"`
	// CPU is what each program used for a pod until the last one was bound, in
	// milliseconds of processor time.
	CPU cpuTimes `json:"cpuMillisecondsPerPod,omitempty"`
	// Calls are those of the scheduler that prebind served, by path.
	Calls map[string]quantiles `json:"nodesCalls,omitempty"`
	// Of prebind.
	CPUSeconds float64 `json:"prebindCPUSeconds,omitempty"`
	PeakMiB    float64 `json:"prebindPeakMiB,omitempty"`
	// FailedBinds are its bind calls that did not end in a bound pod, by reason.
	FailedBinds map[string]int `json:"failedBinds,omitempty"`
	// FilterCalls are there if the scenario asks for them.
	FilterCalls *filterCalls `json:"filterCalls,omitempty"`
	// Stages are the medians of the stages of its binding cycle.
	Stages map[string]milliseconds `json:"prebindStagesMilliseconds,omitempty"`
}

// measure runs one variant of a scenario. What fails is told in the result: the
// other series go on.
func (l *lab) measure(ctx context.Context, s scenario, v variant) (measurement, error) {
	m, err := l.runSeries(ctx, s, v)
	if err != nil && ctx.Err() == nil {
		l.out.Printf("  %-16s failed: %v", v, err)
		return measurement{Variant: v, Error: err.Error()}, l.stop(ctx)
	}
	return m, err
}

func (l *lab) runSeries(ctx context.Context, s scenario, v variant) (measurement, error) {
	if err := l.start(ctx, s, v); err != nil {
		return measurement{}, err
	}
	namespace, err := l.cp.CreateNamespace(ctx, "bench")
	if err != nil {
		return measurement{}, err
	}
	r := &series{lab: l, scenario: s, variant: v, namespace: namespace, pods: s.podsFor(v)}
	m, err := r.do(ctx)
	if err == nil {
		l.out.Printf("  %-16s %s", v, m.line(s.Kind))
	}
	if stopErr := l.stop(ctx); stopErr != nil {
		return m, stopErr
	}
	if restoreErr := l.restore(ctx, namespace); restoreErr != nil {
		return m, restoreErr
	}
	return m, err
}

// line is the measurement for people who watch.
func (m measurement) line(k kind) string {
	text := fmt.Sprintf("%d pods, p50 %.0f ms, p99 %.0f ms, scheduling %.1f ms a pod", m.Pods, m.Latency.P50, m.Latency.P99, m.SchedulingMilliseconds)
	if k != onebyone {
		text = fmt.Sprintf("%.1f pods/s, ", m.PodsPerSecond) + text
	}
	return text
}

// result puts a measurement together.
func (r *series) result(before, after counters) measurement {
	pods := float64(r.pods)
	m := measurement{Variant: r.variant, Pods: r.pods, FilterCalls: r.filterCalls, WritesBy: map[string]float64{}}
	samples, first, last := make([]time.Duration, r.pods), r.created[0], time.Time{}
	for i, created := range r.created {
		bound := r.watch.at(podName(i))
		samples[i] = bound.Sub(created)
		if created.Before(first) {
			first = created
		}
		if bound.After(last) {
			last = bound
		}
	}
	if !r.began.IsZero() {
		first = r.began
	}
	m.Latency = summarize(samples)
	m.CPU = r.cpuBound.perPod(r.cpuBegan, r.pods)
	if r.scenario.Kind != onebyone {
		m.PodsPerSecond = pods / last.Sub(first).Seconds()
	}
	was, is := before.scheduler.schedulerCosts(), after.scheduler.schedulerCosts()
	m.FilterMilliseconds = (is.filterSeconds - was.filterSeconds) * 1000 / pods
	m.SchedulingMilliseconds = (is.algorithmSeconds - was.algorithmSeconds) * 1000 / pods
	m.FailedAttempts = (is.failedAttempts - was.failedAttempts) / pods
	earlier := before.apiServer.apiWrites()
	for request, count := range after.apiServer.apiWrites() {
		if delta := count - earlier[request]; delta > 0 {
			m.WritesBy[request] = delta / pods
		}
	}
	m.Events = m.WritesBy["POST events"] + m.WritesBy["PATCH events"]
	maps.DeleteFunc(m.WritesBy, func(request string, _ float64) bool { return foreign(request, r.scenario.Kind) })
	for _, count := range m.WritesBy {
		m.Writes += count
	}
	if r.prebind != nil {
		m.CPUSeconds = after.prebind.sum("process_cpu_seconds_total", nil) - before.prebind.sum("process_cpu_seconds_total", nil)
		_, m.PeakMiB = memory(r.prebind.Process)
		m.Calls = after.prebind.nodesCalls(before.prebind)
	}
	return m
}

// foreign tells that a request is not one of binding a pod.
func foreign(request string, k kind) bool {
	switch request {
	case "POST pods", "POST serviceaccounts/token", "POST events", "PATCH events", "PUT leases", "POST leases", "PATCH leases":
		return true
	case "POST persistentvolumeclaims":
		return k == onebyone // by us
	}
	return false
}
