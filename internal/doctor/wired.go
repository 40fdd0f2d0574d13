package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// skew is by how much clocks of several machines may differ.
	skew = 5 * time.Second
	// patient is how long a pod may have no word of its scheduler.
	patient = time.Minute
	// mostSuspects is how many newly bound pods are looked at.
	mostSuspects = 10
)

// wiring is what tells whether the running scheduler calls prebind.
type wiring struct {
	now time.Time
	readings
	// schedulers are the names that call prebind by the scheduler's file; nil:
	// unknown.
	schedulers []string
	// bound are pods that some scheduler has bound of late.
	bound []boundPod
	// untried are pods without a word of their scheduler.
	untried []waitingPod
}

// boundPod is a pod that its scheduler has bound.
type boundPod struct {
	name, scheduler string
	created         time.Time
}

// checkWired finds out whether the running scheduler really calls prebind.
func (e *exam) checkWired(ctx context.Context) outcome {
	known, all := e.read()
	switch {
	case len(e.replicas) == 0:
		return skipped("%s", e.noReplicas)
	case len(known) == 0:
		return skipped("no metrics can be read (see replicas): %v", e.replicas[0].err)
	}
	w := wiring{now: e.Now, readings: sumUp(known)}
	if e.registered != nil && e.registered.URL != "" {
		w.schedulers = e.registered.SchedulerNames
	}
	if e.waiting != nil {
		w.untried = e.waiting.untried
	}
	evidence := ""
	switch {
	case !all:
		evidence = "; not all replicas can be read, so pods that were bound without prebind cannot be told"
	case e.cluster == nil:
		evidence = "; without the cluster, pods that were bound without prebind cannot be seen"
	default:
		var err error
		if w.bound, err = e.justBound(ctx, w.since()); err != nil {
			evidence = "; " + explain(err, "list", "events")
		}
	}
	out := outcome{summary: "no bind call since prebind was started " + ago(e.Now, w.started)}
	if !w.last.IsZero() {
		out.summary = "the last bind call came " + ago(e.Now, w.last)
	} else if w.calls > 0 {
		out.summary = plural(w.calls, "bind call") + " since prebind was started " + ago(e.Now, w.started)
	}
	if w.inFlight > 0 {
		out.summary += "; " + has(w.inFlight, "call") + " running now"
	}
	out.summary += evidence
	if all && !e.BeforeUninstall { // when nobody is to call any more
		out.findings = w.judge()
	}
	return out
}

// since is the time from which on a pod cannot be bound by prebind unseen.
func (w *wiring) since() time.Time {
	if w.last.After(w.started) {
		return w.last.Add(skew)
	}
	return w.started.Add(skew)
}

// justBound returns pods that a scheduler has bound and that were created
// after since, a few of the newest. Schedulers tell of each binding by an event.
func (e *exam) justBound(ctx context.Context, since time.Time) ([]boundPod, error) {
	var events []*corev1.Event
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		opts.FieldSelector = "reason=Scheduled,involvedObject.kind=Pod"
		return e.cluster.client.CoreV1().Events(metav1.NamespaceAll).List(ctx, opts)
	}
	err := eachPage(ctx, list, func(event *corev1.Event) {
		if eventTime(event).After(since) {
			events = append(events, event)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(events, func(a, b *corev1.Event) int { return eventTime(b).Compare(eventTime(a)) })
	var found []boundPod
	for _, event := range events[:min(len(events), mostSuspects)] {
		pod, err := e.cluster.client.CoreV1().Pods(event.InvolvedObject.Namespace).Get(ctx, event.InvolvedObject.Name, metav1.GetOptions{})
		if err != nil || pod.UID != event.InvolvedObject.UID || !pod.CreationTimestamp.After(since) {
			continue // gone, or maybe prebind's
		}
		found = append(found, boundPod{name: pod.Namespace + "/" + pod.Name, scheduler: pod.Spec.SchedulerName, created: pod.CreationTimestamp.Time})
	}
	return found, nil
}

// eventTime is when an event happened; which field tells depends on the API
// by which it was made.
func eventTime(event *corev1.Event) time.Time {
	switch {
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	case !event.FirstTimestamp.IsZero():
		return event.FirstTimestamp.Time
	default:
		return event.CreationTimestamp.Time
	}
}

// judge says whether the scheduler calls prebind.
func (w *wiring) judge() []Finding {
	var findings []Finding
	if finding, found := w.bypassed(); found {
		findings = append(findings, finding)
	}
	if finding, found := w.abandoned(); found {
		findings = append(findings, finding)
	}
	if len(findings) == 0 && w.last.IsZero() && w.calls == 0 && w.inFlight == 0 {
		findings = append(findings, Finding{
			Severity: Advice, Object: "prebind", What: "no scheduler has called prebind since it was started " + ago(w.now, w.started),
			Why:  "It may not be registered, or the scheduler was not restarted with the new configuration; or no pod was created since.",
			Mend: "Create a pod, and run doctor again.",
		})
	}
	return findings
}

// severity is a fault for pods of a scheduler that ought to call prebind.
func (w *wiring) severity(scheduler string) Status {
	if slices.Contains(w.schedulers, scheduler) {
		return Fault
	}
	return Advice
}

// concerns leaves out the pods of schedulers that, by the file, do not call.
func (w *wiring) concerns(scheduler string) bool {
	return w.schedulers == nil || slices.Contains(w.schedulers, scheduler)
}

// bypassed finds a pod that was created and bound while nobody called prebind.
func (w *wiring) bypassed() (Finding, bool) {
	since := w.since()
	for _, pod := range w.bound {
		if !pod.created.After(since) || !w.concerns(pod.scheduler) {
			continue
		}
		last := "none since prebind was started " + ago(w.now, w.started)
		if !w.last.IsZero() {
			last = "the last " + ago(w.now, w.last)
		}
		finding := Finding{
			Severity: w.severity(pod.scheduler), Object: "pod " + pod.name,
			What: fmt.Sprintf("%s has bound it without a call to prebind (bind calls: %s; pod created %s)", pod.scheduler, last, ago(w.now, pod.created)),
			Why:  "The running scheduler does not call this prebind. If its profile has VolumeBinding disabled, pods start with unbound claims.",
			Mend: "Restart the scheduler with the configuration that has prebind's entry, and see that it calls this prebind: urlPrefix must lead here, and ignorable must be false.",
		}
		if finding.Severity == Advice {
			finding.Why = fmt.Sprintf("If %s is meant to call prebind, it does not: it was not restarted with the new configuration, or calls another address.", pod.scheduler)
			finding.Mend = "If it is not meant to, all is well; --scheduler-config tells doctor which schedulers are. Else restart it with the configuration that has prebind's entry."
		}
		return finding, true
	}
	return Finding{}, false
}

// abandoned finds pods that no scheduler has looked at, and that prebind does
// not hold.
func (w *wiring) abandoned() (Finding, bool) {
	var pods []waitingPod
	for _, pod := range w.untried {
		if w.concerns(pod.scheduler) && w.now.Sub(pod.created) > patient {
			pods = append(pods, pod)
		}
	}
	if len(pods) <= w.inFlight { // these may be the calls that run
		return Finding{}, false
	}
	severity := Advice
	for _, pod := range pods {
		if w.severity(pod.scheduler) == Fault {
			severity = Fault
		}
	}
	return Finding{
		Severity: severity, Object: "pods " + podNames(pods),
		What: fmt.Sprintf("%s without a word of their scheduler (%s) for more than a minute, and prebind has %s", has(len(pods), "pod"), pods[0].scheduler, plural(w.inFlight, "bind call")),
		Why:  "The scheduler of that name does not run, hangs, or is not the one that was configured.",
		Mend: "See that a scheduler serves this schedulerName, and its log.",
	}, true
}
