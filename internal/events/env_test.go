package events_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/testkit"
)

// env is a running Recorder, in a synctest bubble.
type env struct {
	t        *testing.T
	client   *fake.Clientset
	recorder *events.Recorder
	logs     *observer.ObservedLogs
	metrics  *prometheus.Registry
	// refuse is answered to creates and patches, if not nil.
	refuse error
}

func bubble(t *testing.T, f func(e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		e := &env{t: t, client: fake.NewClientset(), logs: logs, metrics: prometheus.NewRegistry()}
		e.client.PrependReactor("*", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return e.refuse != nil && action.GetVerb() != "list", nil, e.refuse
		})
		e.recorder = newRecorder(t, e.client, e.metrics, zap.New(core))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.recorder.Run(ctx)
		}()
		f(e)
		stop()
		<-ended // and then the bubble waits for all that Run has started
	})
}

func newRecorder(t *testing.T, client kubernetes.Interface, metrics *prometheus.Registry, logger *zap.Logger) *events.Recorder {
	t.Helper()
	recorder, err := events.New(events.Config{Client: client.EventsV1(), Logger: logger, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	return recorder
}

// results are what became of the events, but for what did not happen.
func results(t *testing.T, metrics *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		if n := metric.GetCounter().GetValue(); n > 0 {
			got[metric.GetLabel()[0].GetValue()] = n
		}
	}
	return got
}

func wantResults(t *testing.T, metrics *prometheus.Registry, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, results(t, metrics)); diff != "" {
		t.Errorf("prebind_events_total (-want +got):\n%s", diff)
	}
}

// record records the events and waits until they are sent, or waits for a turn.
func (e *env) record(all ...events.Event) {
	for _, event := range all {
		e.recorder.Record(event)
	}
	synctest.Wait()
}

// requests lists the verbs of the requests that write.
func (e *env) requests() []string {
	var verbs []string
	for _, action := range e.client.Actions() {
		if verb := action.GetVerb(); verb != "list" {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func (e *env) sent(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.requests()); diff != "" {
		e.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// written returns the events that exist, in the order of their notes.
func (e *env) written() []eventsv1.Event {
	e.t.Helper()
	list, err := e.client.EventsV1().Events(testkit.Namespace).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return strings.Compare(a.Note, b.Note) })
	return list.Items
}

// notes has the note of each event, and how often it was seen.
func (e *env) notes() map[string]int32 {
	e.t.Helper()
	notes := map[string]int32{}
	for _, event := range e.written() {
		notes[event.Note]++
		if event.Series != nil {
			notes[event.Note] += event.Series.Count - 1
		}
	}
	return notes
}

func (e *env) hasNotes(want map[string]int32) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.notes()); diff != "" {
		e.t.Errorf("notes of the events, with their counts (-want +got):\n%s", diff)
	}
}

// onPod is an event on pod db-0 about claim data-0.
func onPod(note string) events.Event {
	return events.Event{
		Regarding: events.Pod(testkit.Namespace, "db-0", testkit.UID("db-0")),
		Related:   events.Claim(testkit.Claim("data-0").PersistentVolumeClaim),
		Reason:    "WaitingForVolume", Action: "BindVolumes", Note: note,
	}
}

// several is events on as many pods, so that nothing is a series.
func several(n int) []events.Event {
	all := make([]events.Event, n)
	for i := range all {
		name := fmt.Sprintf("db-%d", i)
		all[i] = events.Event{
			Regarding: events.Pod(testkit.Namespace, name, testkit.UID(name)),
			Reason:    "WaitingForVolume", Action: "BindVolumes", Note: name,
		}
	}
	return all
}
