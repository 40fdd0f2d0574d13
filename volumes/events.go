package volumes

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// eventTimeout bounds the look for an explanation: the error must go out in
// time even when the API server is slow.
const eventTimeout = 2 * time.Second

// lastEvent returns the newest event about the claim, as text, or "". With
// warnings set only those count. No right, or no answer, is no event.
func (p *Prebinder) lastEvent(ctx context.Context, claim *v1.PersistentVolumeClaim, warnings bool) string {
	selector := fields.Set{"involvedObject.kind": "PersistentVolumeClaim", "involvedObject.uid": string(claim.UID)}
	if warnings {
		selector["type"] = v1.EventTypeWarning
	}
	list, err := p.client.CoreV1().Events(claim.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.AsSelector().String()})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	newest := slices.MaxFunc(list.Items, func(a, b v1.Event) int { return seen(&a).Compare(seen(&b)) })
	return fmt.Sprintf("%s: %s", newest.Reason, newest.Message)
}

// seen is when the event was last seen, in whichever field its recorder uses.
func seen(event *v1.Event) time.Time {
	last := event.LastTimestamp.Time
	for _, other := range []time.Time{event.CreationTimestamp.Time, event.EventTime.Time} {
		if other.After(last) {
			last = other
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}

// warning returns the provisioner's last warning about the claim. Recorders
// send events in the background, so the one that explains a selected-node
// just removed may come a moment later.
func (p *Prebinder) warning(ctx context.Context, claim *v1.PersistentVolumeClaim) string {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	for pause := 25 * time.Millisecond; ; pause *= 2 {
		if text := p.lastEvent(ctx, claim, true); text != "" {
			return text
		}
		if pause > 400*time.Millisecond || !sleep(ctx, pause) {
			return ""
		}
	}
}
