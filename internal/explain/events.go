package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/volumes"
)

const (
	// maxEvents is how many events of an object are told.
	maxEvents = 3
	// reasonProvisioningFailed is how provisioners, the PV controller and prebind call it.
	reasonProvisioningFailed = "ProvisioningFailed"
	// eventLists is how many objects' events are asked for at once.
	eventLists = 4
)

// readEvents reads the last events of the pod and of its claims.
func (f *findings) readEvents(ctx context.Context, client kubernetes.Interface) error {
	var mu sync.Mutex
	var lacking error
	f.events = map[string][]Event{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(eventLists)
	read := func(kind, name string, uid types.UID, keep func([]Event)) {
		group.Go(func() error {
			events, err := lastEvents(ctx, client, f.pod.Namespace, uid)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsForbidden(err):
				lacking = err
			case err != nil:
				return fmt.Errorf("listing the events of %s %s: %w", kind, name, err)
			default:
				keep(events)
			}
			return nil
		})
	}
	read("pod", f.pod.Name, f.pod.UID, func(events []Event) { f.podEvents = events })
	for i := range f.explanation.Claims {
		c := &f.explanation.Claims[i]
		if c.Claim != nil {
			read("claim", c.Name, c.Claim.UID, func(events []Event) { f.events[c.Name] = events })
		}
	}
	err := group.Wait()
	if lacking != nil {
		f.lacks = append(f.lacks, volumes.Lack{Verb: "list", Resource: "events", Err: lacking})
	}
	return err
}

// lastEvents returns the last events about an object, the newest first. The one that
// tells most is among them: the PV controller says again and again that it waits.
func lastEvents(ctx context.Context, client kubernetes.Interface, namespace string, uid types.UID) ([]Event, error) {
	selector := fields.Set{"involvedObject.uid": string(uid)}.AsSelector().String()
	list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	events := make([]Event, 0, len(list.Items))
	for i := range list.Items {
		events = append(events, newEvent(&list.Items[i]))
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last) })
	most := failure(events)
	if most == nil {
		most = lastWarning(events)
	}
	if len(events) > maxEvents {
		last := events[maxEvents-1]
		if most != nil && !slices.Contains(events[:maxEvents], *most) { // times are whole seconds, and may be equal
			last = *most
		}
		events = append(slices.Clip(events[:maxEvents-1]), last)
	}
	return events, nil
}

// lastWarning returns the newest warning, or nil.
func lastWarning(events []Event) *Event {
	for i := range events {
		if events[i].Type == v1.EventTypeWarning {
			return &events[i]
		}
	}
	return nil
}

// failure returns the newest event that says why provisioning failed, if possible one
// of the provisioner itself, or nil.
func failure(all []Event) *Event {
	var found *Event
	for i := range all {
		e := &all[i]
		if e.Type != v1.EventTypeWarning || e.Reason != reasonProvisioningFailed {
			continue
		}
		if e.From != events.Controller {
			return e
		}
		found = cmp.Or(found, e)
	}
	return found
}

func newEvent(e *v1.Event) Event {
	count := max(1, int(e.Count))
	if e.Series != nil {
		count = max(count, int(e.Series.Count))
	}
	first := e.FirstTimestamp.Time
	if first.IsZero() { // a recorder of events.k8s.io
		first = e.EventTime.Time
	}
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	return Event{
		Type: e.Type, Reason: e.Reason, Message: e.Message, From: cmp.Or(e.ReportingController, e.Source.Component),
		First: first.UTC(), Last: volumes.LastSeen(e).UTC(), Count: count,
	}
}
