package tracing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

type broken struct{ sdktrace.SpanExporter }

func (broken) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("away") }

// Once a minute, with what was lost since.
func TestLossesAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		q := &quiet{SpanExporter: broken{}, logger: zap.New(core)}
		for range 13 { // 2 minutes
			if err := q.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 5)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		var got []int64
		for _, line := range logs.All() {
			got = append(got, line.ContextMap()["spans"].(int64))
		}
		if diff := cmp.Diff([]int64{5, 30, 30}, got); diff != "" {
			t.Errorf("spans in the log (-want +got):\n%s", diff)
		}
	})
}

func TestObjects(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/pods/db-0/binding":                                  "pods/binding",
		"/api/v1/namespaces/shop/pods/db-0/status":                                   "pods/status",
		"/api/v1/namespaces/shop/persistentvolumeclaims/data-0":                      "persistentvolumeclaims",
		"/api/v1/namespaces/shop/events":                                             "events",
		"/api/v1/persistentvolumes/pv-1":                                             "persistentvolumes",
		"/api/v1/persistentvolumes/pv-1/status":                                      "persistentvolumes/status",
		"/api/v1/nodes":                                                              "nodes",
		"/api/v1/namespaces/shop":                                                    "namespaces",
		"/apis/storage.k8s.io/v1/storageclasses/fast":                                "storageclasses",
		"/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities/room-1": "csistoragecapacities",
		"/version": "other",
		"/apis":    "other",
		"":         "other",
	} {
		if got := objects(path); got != want {
			t.Errorf("objects(%q) = %q, want %q", path, got, want)
		}
	}
}
