package events_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/internal/testkit"
)

// The same once more is one event, for which a request is sent now and then.
func TestTheSameAgainIsASeries(t *testing.T) {
	bubble(t, func(e *env) {
		for range 11 { // at 0 s, 10 s, ... 100 s
			e.record(onPod("waits"))
			<-time.After(10 * time.Second)
		}
		e.sent("create", "patch", "patch", "patch", "patch") // at 0 s, 10 s, 40 s, 70 s, 100 s
		event := e.written()[0]
		if last := event.Series.LastObservedTime.Sub(event.EventTime.Time); event.Series.Count != 11 || last != 100*time.Second {
			t.Errorf("%d events, the last one after %s", event.Series.Count, last)
		}
		wantResults(t, e.metrics, map[string]float64{"written": 5, "repeated": 6})

		<-time.After(7 * time.Minute)
		e.record(onPod("waits"))
		if written := e.written(); len(written) != 2 || (written[0].Series == nil) == (written[1].Series == nil) {
			t.Errorf("what is said again much later is no event of its own: %v", written)
		}
	})
}

// A series that is older than events are kept is made anew.
func TestASeriesWhoseEventIsGone(t *testing.T) {
	bubble(t, func(e *env) {
		e.record(onPod("waits"))
		if err := e.client.EventsV1().Events(testkit.Namespace).Delete(t.Context(), e.written()[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.client.ClearActions()
		e.record(onPod("waits"))
		e.sent("patch", "create")
		e.hasNotes(map[string]int32{"waits": 2})
	})
}

// What is said of the same objects for the same reason must not hide behind what
// was said first.
func TestAnotherNoteIsAnotherEvent(t *testing.T) {
	bubble(t, func(e *env) {
		for _, note := range []string{"waits for the controller", "waits for the provisioner", "waits for pv-2", "waits for pv-2"} {
			e.record(onPod(note))
			<-time.After(time.Millisecond)
		}
		e.sent("create", "create", "create", "patch")
		e.hasNotes(map[string]int32{"waits for the controller": 1, "waits for the provisioner": 1, "waits for pv-2": 2})
	})
}

// Some provisioners put another request ID into each error: these must not become
// an event each.
func TestNotesThatAreNeverTheSameAreFewEvents(t *testing.T) {
	bubble(t, func(e *env) {
		for n := range 120 {
			e.record(onPod(fmt.Sprintf("throttled, request %d", n)))
			<-time.After(time.Second)
		}
		<-time.After(10 * time.Second)
		e.record(onPod("throttled, at last"))
		var all int32
		notes := e.notes()
		for _, count := range notes {
			all += count
		}
		if len(notes) != 5 || notes["throttled, request 0"] != 1 || notes["throttled, request 3"] < 90 || notes["throttled, at last"] != 1 || all > 121 {
			t.Errorf("events %v", notes)
		}
	})
}
