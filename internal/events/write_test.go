package events_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/prebind/prebind/internal/events"
)

// An API server that hangs holds up one request, and whoever records not at all.
func TestARequestThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		client := &hanging{EventsV1Interface: fake.NewClientset().EventsV1()}
		recorder, err := events.New(events.Config{Client: client, Logger: zap.NewNop(), Metrics: metrics})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go recorder.Run(ctx)
		began := time.Now()
		for _, event := range several(1000) {
			recorder.Record(event)
		}
		synctest.Wait()
		if time.Since(began) > 0 || client.requests.Load() != 1 {
			t.Errorf("recording took %s, %d requests", time.Since(began), client.requests.Load())
		}
		<-time.After(11 * time.Second)
		synctest.Wait()
		if n := client.requests.Load(); n != 1 {
			t.Errorf("%d requests, want one that ended after ten seconds", n)
		}
		wantResults(t, metrics, map[string]float64{"failed": 1, "paused": 999})
	})
}

// hanging is an API server that never answers.
type hanging struct {
	typedeventsv1.EventsV1Interface
	requests atomic.Int32
}

func (h *hanging) Events(string) typedeventsv1.EventInterface { return hangingEvents{hanging: h} }

type hangingEvents struct {
	typedeventsv1.EventInterface
	*hanging
}

func (h hangingEvents) Create(ctx context.Context, _ *eventsv1.Event, _ metav1.CreateOptions) (*eventsv1.Event, error) {
	h.requests.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A right that is missing is logged once, and asked about once a minute.
func TestAMissingRightIsLoggedOnce(t *testing.T) {
	bubble(t, func(e *env) {
		e.refuse = apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", errors.New("no"))
		e.record(several(1)...)
		e.record(several(10)[1:]...)
		e.sent("create")
		<-time.After(time.Minute)
		e.record(several(11)[10:]...)
		e.record(several(20)[11:]...)
		e.sent("create", "create")
		logs := e.logs.All()
		if len(logs) != 1 || logs[0].Level != zap.WarnLevel || logs[0].ContextMap()["right"] != "create events.events.k8s.io" {
			t.Fatalf("log: %v", logs)
		}
		e.refuse = nil // it is given
		<-time.After(time.Minute)
		e.record(several(21)[20])
		e.hasNotes(map[string]int32{"db-20": 1})
	})
}

// The API server says the same word of a namespace that is being deleted.
func TestANamespaceThatGoesIsNoMissingRight(t *testing.T) {
	bubble(t, func(e *env) {
		terminating := apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", errors.New("no"))
		terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
		e.refuse = terminating
		e.record(several(2)...)
		e.sent("create", "create")
		if logs := e.logs.All(); len(logs) > 0 {
			t.Errorf("log: %v", logs)
		}
	})
}

// While the API server is away nothing piles up: nothing is sent but a request
// now and then, and nothing is tried again.
func TestNothingIsSentWhileTheAPIServerIsAway(t *testing.T) {
	bubble(t, func(e *env) {
		e.refuse = errors.New("connection refused")
		e.record(several(1)...)
		e.record(several(50)[1:]...)
		e.sent("create")
		<-time.After(9 * time.Second)
		e.record(several(60)[50:]...)
		e.sent("create")
		<-time.After(5 * time.Minute)
		e.sent("create")
		e.refuse = nil
		e.record(several(61)[60])
		e.hasNotes(map[string]int32{"db-60": 1})
	})
}
