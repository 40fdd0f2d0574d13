package events_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/testkit"
)

func TestAnEventHasEveryField(t *testing.T) {
	bubble(t, func(e *env) {
		event := onPod("quota exceeded")
		event.Warning = true
		e.record(event)
		written := e.written()
		if len(written) != 1 {
			t.Fatalf("%d events", len(written))
		}
		got := written[0]
		if !got.EventTime.Time.Equal(time.Now()) || !strings.HasPrefix(got.Name, "db-0.") || !strings.HasPrefix(got.ReportingInstance, events.Controller+"-") {
			t.Errorf("eventTime %s, name %s, reportingInstance %s", got.EventTime, got.Name, got.ReportingInstance)
		}
		want := eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: got.Name, Namespace: testkit.Namespace},
			EventTime:  got.EventTime, ReportingController: "prebind.dev/prebind", ReportingInstance: got.ReportingInstance,
			Type: "Warning", Reason: "WaitingForVolume", Action: "BindVolumes", Note: "quota exceeded",
			Regarding: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: testkit.Namespace, Name: "db-0", UID: "uid-db-0"},
			Related:   &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: testkit.Namespace, Name: "data-0", UID: "uid-data-0"},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	})
}

func TestALongNoteIsCut(t *testing.T) {
	bubble(t, func(e *env) {
		e.record(onPod(strings.Repeat("é", 600)))
		note := e.written()[0].Note
		if len(note) > 1024 || len(note) < 1000 || !utf8.ValidString(note) || !strings.HasSuffix(note, "é...") {
			t.Errorf("note of %d bytes, valid: %t, ends with %q", len(note), utf8.ValidString(note), note[len(note)-8:])
		}
	})
}

func TestEventsAreSentAtALimitedRate(t *testing.T) {
	bubble(t, func(e *env) {
		e.record(several(events.Burst + 10*events.QPS)...)
		if n := len(e.requests()); n != events.Burst {
			t.Errorf("%d events were sent at once, want %d", n, events.Burst)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if n, most := len(e.requests()), events.Burst+5*events.QPS+1; n > most || n < most-2 {
			t.Errorf("%d events were sent in five seconds, want %d", n, most)
		}
		<-time.After(5*time.Second + 100*time.Millisecond)
		synctest.Wait()
		if n, all := len(e.requests()), events.Burst+10*events.QPS; n != all {
			t.Errorf("%d events were sent in the end, want all %d", n, all)
		}
	})
}

// Whoever records never waits, not even when nobody sends; and what is lost is
// counted.
func TestRecordNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		recorder := newRecorder(t, fake.NewClientset(), metrics, zap.NewNop())
		for _, event := range several(1500) {
			recorder.Record(event) // if it blocked, the bubble would be dead
		}
		wantResults(t, metrics, map[string]float64{"dropped": 500})
		ended, stop := context.WithCancel(t.Context())
		stop()
		recorder.Run(ended)
		wantResults(t, metrics, map[string]float64{"dropped": 1500})
	})
	(*events.Recorder)(nil).Record(events.Event{}) // off
}

func TestTheMetricIsWellFormed(t *testing.T) {
	metrics := prometheus.NewRegistry()
	newRecorder(t, fake.NewClientset(), metrics, zap.NewNop())
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 || len(families[0].GetMetric()) != 5 {
		t.Errorf("problems: %v, error %v, %d results", problems, err, len(families[0].GetMetric()))
	}
}
