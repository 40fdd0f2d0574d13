package volumes

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/prebind/prebind/internal/events"
)

// eventTimeout bounds the look for an explanation: the error must go out in
// time even when the API server is slow.
const eventTimeout = 2 * time.Second

// eventLookups is how many lists of events are asked for at once. The API server
// reads a namespace's events from etcd for each, and when thousands of calls time
// out together, because it is slow, that must not make it slower.
const eventLookups = 4

// lastEvent returns the newest warning about the claim, as text, or, unless only
// warnings count, the newest event: the PV controller says again and again, after
// each warning, that it waits for the provisioner. No right, no answer, or no turn
// before ctx ends, is no event: "".
func (p *Prebinder) lastEvent(ctx context.Context, claim *v1.PersistentVolumeClaim, warnings bool) string {
	select {
	case p.lookups <- struct{}{}:
		defer func() { <-p.lookups }()
	case <-ctx.Done():
		return ""
	}
	selector := fields.Set{"involvedObject.kind": "PersistentVolumeClaim", "involvedObject.uid": string(claim.UID)}
	if warnings {
		selector["type"] = v1.EventTypeWarning
	}
	list, err := p.client.CoreV1().Events(claim.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.AsSelector().String()})
	if err != nil {
		return ""
	}
	// Our own ones say what the others say, and would be told again and again.
	others := slices.DeleteFunc(list.Items, func(e v1.Event) bool { return e.ReportingController == events.Controller })
	if len(others) == 0 {
		return ""
	}
	newest := slices.MaxFunc(others, func(a, b v1.Event) int {
		if a.Type != b.Type {
			return warningFirst(a.Type) - warningFirst(b.Type)
		}
		return seen(&a).Compare(seen(&b))
	})
	return fmt.Sprintf("%s: %s", newest.Reason, newest.Message)
}

func warningFirst(kind string) int {
	if kind == v1.EventTypeWarning {
		return 1
	}
	return 0
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
