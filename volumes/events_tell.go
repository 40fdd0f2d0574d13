package volumes

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/fault"
)

// Recorder takes events up for pods and claims. It is called in parallel, in the
// middle of bind calls: it must not block.
type Recorder interface {
	Record(event events.Event)
}

// Words of events. The reason of a failure is its fault's code.
const (
	// ReasonWaiting is of the event that a pod waits for its volumes.
	ReasonWaiting     = "WaitingForVolume"
	actionBindVolumes = "BindVolumes"
)

const (
	// NoticeAfter is how long a pod waits before an event says so, and how long it
	// takes until the next one.
	NoticeAfter = time.Minute
	// maxTold is how many claims of a pod get an event of their own at a time.
	maxTold = 16
)

// tellWaiting says what the pod waits for, on the pod and on its claims. The
// notes say no age, so that the same wait later on is the same event once more.
func (p *Prebinder) tellWaiting(call *waitingCall, waiting []pending) {
	if p.events == nil {
		return
	}
	pod := podReference(call.pod)
	texts := make([]string, 0, len(waiting))
	for _, w := range waiting {
		texts = append(texts, describe(w.item.claim)+" waits for "+w.what)
	}
	p.events.Record(events.Event{
		Regarding: pod, Related: events.Claim(waiting[0].item.claim), Reason: ReasonWaiting, Action: actionBindVolumes,
		Note: "node " + call.node + ": " + strings.Join(texts, "; "),
	})
	for _, w := range waiting[:min(len(waiting), maxTold)] {
		p.events.Record(events.Event{
			Regarding: events.Claim(w.item.claim), Related: pod, Reason: ReasonWaiting, Action: actionBindVolumes,
			Note: "pod " + call.pod.Namespace + "/" + call.pod.Name + ", to be bound to node " + call.node + ", waits for " + w.what,
		})
	}
}

// tellFailure says why the claim can not be had on the node, on the pod and on
// the claim. Other failures are the scheduler's to tell.
func (p *Prebinder) tellFailure(pod *v1.Pod, claim *v1.PersistentVolumeClaim, err error) {
	code := fault.CodeOf(err)
	if p.events == nil || (code != fault.ProvisioningFailed && code != fault.NodeConflict) {
		return
	}
	event := events.Event{
		Regarding: podReference(pod), Related: events.Claim(claim), Warning: true,
		Reason: string(code), Action: actionBindVolumes, Note: fault.Detail(err),
	}
	p.events.Record(event)
	event.Regarding, event.Related = event.Related, event.Regarding
	event.Note = "pod " + pod.Namespace + "/" + pod.Name + ": " + event.Note
	p.events.Record(event)
}

// tellUnfit does so for each claim of a pod that was refused whose volume the
// node cannot reach, as far as the caches show it.
func (p *Prebinder) tellUnfit(ctx context.Context, pod *v1.Pod, nodeName string) {
	node := p.caches.node(nodeName)
	if p.events == nil || node == nil || ctx.Err() != nil {
		return
	}
	claims, err := p.gather(ctx, &reader{caches: p.caches}, pod)
	if err != nil {
		return
	}
	facts, err := claims.on(node)
	if err != nil {
		return
	}
	_, problems := makePlan(facts)
	for _, problem := range problems {
		if problem.Code == fault.NodeConflict {
			p.tellFailure(pod, problem.claim.Claim, problem.Error)
		}
	}
}

func podReference(pod *v1.Pod) v1.ObjectReference {
	return events.Pod(pod.Namespace, pod.Name, pod.UID)
}
