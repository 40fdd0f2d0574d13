package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// waiting is which pods have no node yet, by what is known of why.
type waiting struct {
	all int
	// untried have no word of a scheduler: it has not come to them, or is at
	// work on them now, prebind's waits among that.
	untried []waitingPod
	// unreached are those whose bind call did not get to prebind or back.
	unreached []waitingPod
	// refused are those with an answer of prebind's, by its code.
	refused map[string][]waitingPod
	// nodeless are those that fit no node, gated are held by their gates.
	nodeless, gated int
}

// waitingPod is a pod without a node.
type waitingPod struct {
	name      string // NAMESPACE/NAME
	scheduler string
	created   time.Time
	message   string // of its condition
}

// checkWaiting looks at the pods that have no node now.
func (e *exam) checkWaiting(ctx context.Context) outcome {
	if e.cluster == nil {
		return skipped("%s", e.noCluster)
	}
	w := &waiting{refused: map[string][]waitingPod{}}
	list := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		opts.FieldSelector = "spec.nodeName="
		return e.cluster.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
	}
	if err := eachPage(ctx, list, w.add); err != nil {
		return skipped("%s", explain(err, "list", "pods"))
	}
	e.waiting = w
	return outcome{summary: w.String(), findings: w.judge()}
}

var (
	// codeInMessage is how an answer of prebind's begins in a condition's text.
	codeInMessage = regexp.MustCompile(`(?:^|[ :])([A-Z][a-z]+(?:[A-Z][a-z]+)*): `)
	// callInMessage is what kube-scheduler says of a bind call that failed.
	callInMessage = regexp.MustCompile(`Post "[^"]*/bind"|failed bind with extender`)
)

func (w *waiting) add(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	w.all++
	one := waitingPod{name: pod.Namespace + "/" + pod.Name, scheduler: pod.Spec.SchedulerName, created: pod.CreationTimestamp.Time}
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if at < 0 {
		w.untried = append(w.untried, one)
		return
	}
	condition := pod.Status.Conditions[at]
	one.message = condition.Message
	switch {
	case condition.Reason == corev1.PodReasonSchedulingGated:
		w.gated++
	case condition.Reason != corev1.PodReasonSchedulerError:
		w.nodeless++
	case callInMessage.MatchString(condition.Message):
		w.unreached = append(w.unreached, one)
	default:
		code := "other"
		if found := codeInMessage.FindStringSubmatch(condition.Message); found != nil {
			code = found[1]
		}
		w.refused[code] = append(w.refused[code], one)
	}
}

func (w *waiting) String() string {
	if w.all == 0 {
		return "no pod waits for a node"
	}
	refused := 0
	for _, pods := range w.refused {
		refused += len(pods)
	}
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{len(w.untried), "not tried yet, or in a bind call"},
		{w.nodeless, "fit no node"},
		{w.gated, "held by gates"},
		{refused, "refused when bound"},
		{len(w.unreached), "whose bind call failed"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	return fmt.Sprintf("%s without a node: %s", plural(w.all, "pod"), strings.Join(parts, ", "))
}

func (w *waiting) judge() []Finding {
	var findings []Finding
	if len(w.unreached) > 0 {
		findings = append(findings, Finding{
			Severity: Fault, Object: "pods " + podNames(w.unreached),
			What: "the scheduler's last bind call for them failed: " + w.unreached[0].message,
			Why:  "prebind cannot be reached from the scheduler, or was cut off; no pod is bound while that is so.",
			Mend: "Start prebind; else see check endpoint, with --endpoint and the scheduler's certificates, on the scheduler's machine. The pods are tried again by themselves.",
		})
	}
	var codes []string
	for code := range w.refused {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		pods := w.refused[code]
		findings = append(findings, Finding{
			Severity: Advice, Object: "pods " + podNames(pods),
			What: "the last attempt to bind them failed: " + pods[0].message,
			Why:  "The scheduler tries them again and again; most causes end by themselves, but not all.",
			Mend: "Mend the cause that the message names, if it stays.",
		})
	}
	return findings
}

func podNames(pods []waitingPod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.name)
	}
	return some(names)
}
