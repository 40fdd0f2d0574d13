package binder

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/volumes"
)

// reasonBound and actionBind are the words of the event for a pod that was bound.
const (
	reasonBound = "Bound"
	actionBind  = "Bind"
)

// tellBound says that the pod was bound, and with which volumes, on the pod and
// on its claims.
func (b *Binder) tellBound(call *Call, took time.Duration) {
	if b.boundEvents == nil {
		return
	}
	pod := events.Pod(call.Pod.Namespace, call.Pod.Name, call.Pod.UID)
	event := events.Event{
		Regarding: pod, Reason: reasonBound, Action: actionBind,
		Note: fmt.Sprintf("bound to node %s in %s", call.Node, took.Round(time.Millisecond)),
	}
	claims := b.boundClaims(call.Pod)
	texts := make([]string, 0, len(claims))
	for _, claim := range claims {
		texts = append(texts, fmt.Sprintf("claim %s/%s has volume %s", claim.Namespace, claim.Name, claim.Spec.VolumeName))
	}
	if len(claims) > 0 {
		event.Related = events.Claim(claims[0])
		event.Note += "; " + strings.Join(texts, ", ")
	}
	b.boundEvents.Record(event)
	for i, claim := range claims {
		b.boundEvents.Record(events.Event{
			Regarding: events.Claim(claim), Related: pod, Reason: reasonBound, Action: actionBind,
			Note: fmt.Sprintf("%s, for pod %s/%s on node %s", texts[i], call.Pod.Namespace, call.Pod.Name, call.Node),
		})
	}
}

// boundClaims are the pod's claims as the cache shows them, but for one whose
// volume it does not show yet.
func (b *Binder) boundClaims(pod *v1.Pod) []*v1.PersistentVolumeClaim {
	var claims []*v1.PersistentVolumeClaim
	for _, key := range volumes.ClaimNames(pod) {
		namespace, name, _ := strings.Cut(key, "/")
		claim, err := b.caches.Claims.PersistentVolumeClaims(namespace).Get(name)
		if err == nil && claim.Spec.VolumeName != "" && len(claims) < maxEndedClaims {
			claims = append(claims, claim)
		}
	}
	return claims
}
