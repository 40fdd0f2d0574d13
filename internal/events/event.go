package events

import (
	"strings"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
)

// Controller is the reportingController of all events that prebind writes.
const Controller = "prebind.dev/prebind"

// maxNote is the longest note, in bytes, that the API server takes.
const maxNote = 1024

// Event is one thing that people should see on an object.
type Event struct {
	// Regarding is what the event is about, and where `kubectl describe` shows
	// it. Related is the other one of pod and claim; zero is none.
	Regarding, Related v1.ObjectReference
	// Warning makes it an event of type Warning, else it is Normal.
	Warning bool
	// Reason is why it is written, one word such as "WaitingForVolume".
	Reason string
	// Action is what prebind was about, one word such as "BindVolumes".
	Action string
	// Note is the text for people. What is over 1,024 bytes is cut off.
	Note string

	at time.Time // when it was recorded
}

// Pod refers to a pod.
func Pod(namespace, name string, uid types.UID) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: uid}
}

// Claim refers to a claim.
func Claim(claim *v1.PersistentVolumeClaim) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

// object is the event as it is written the first time.
func (e *Event) object(instance string) *eventsv1.Event {
	object := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Regarding.Namespace,
			Name:      util.GenerateEventName(e.Regarding.Name, e.at.UnixNano()),
		},
		EventTime: metav1.NewMicroTime(e.at), ReportingController: Controller, ReportingInstance: instance,
		Type: v1.EventTypeNormal, Reason: e.Reason, Action: e.Action, Note: e.Note, Regarding: e.Regarding,
	}
	if e.Warning {
		object.Type = v1.EventTypeWarning
	}
	if e.Related != (v1.ObjectReference{}) {
		object.Related = &e.Related
	}
	return object
}

// cut shortens a note to what the API server takes.
func cut(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	end := maxNote - len(dots)
	for end > 0 && !utf8.RuneStart(note[end]) {
		end--
	}
	return strings.TrimRight(note[:end], " ") + dots
}
