package explain_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/testkit"
)

func TestLastEvents(t *testing.T) {
	data := testkit.Claim("data").Class("fast")
	event := func(name, kind, reason, from string) *v1.Event {
		e := testkit.Event(name, data.PersistentVolumeClaim, kind, reason, "said by "+from, now)
		e.ReportingController = from
		return e
	}
	a, b, c := event("a", v1.EventTypeNormal, "A", "x"), event("b", v1.EventTypeNormal, "B", "x"), event("c", v1.EventTypeNormal, "C", "x")
	warning := event("w", v1.EventTypeWarning, "Warning", "x")
	failed := event("f", v1.EventTypeWarning, "ProvisioningFailed", "csi.example.com")
	ours := event("o", v1.EventTypeWarning, "ProvisioningFailed", "prebind.dev/prebind")
	tests := map[string]struct {
		events  []*v1.Event // the oldest first
		apart   int         // seconds
		want    string
		verdict string
	}{
		"few":              {[]*v1.Event{a, b}, 1, "B A", "its claims allow"},
		"the newest":       {[]*v1.Event{a, warning, b, c}, 1, "C B Warning", "its claims allow"},
		"the last warning": {[]*v1.Event{warning, a, b, c}, 1, "C B Warning", "its claims allow"},
		"the last failure, before other warnings": {[]*v1.Event{failed, a, b, warning}, 1, "Warning B ProvisioningFailed", "said by csi.example.com"},
		"the provisioner's own words":             {[]*v1.Event{failed, ours, a, b}, 1, "B A ProvisioningFailed", "said by csi.example.com"},
		"the failure, in the same second":         {[]*v1.Event{a, b, c, failed}, 0, "A B ProvisioningFailed", "said by csi.example.com"},
		"prebind's, if there are no others":       {[]*v1.Event{ours, a, b}, 1, "B A ProvisioningFailed", "said by prebind.dev/prebind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{data}
			for i, e := range tc.events {
				e := e.DeepCopy()
				e.LastTimestamp = metav1.Unix(int64(now-100+i*tc.apart), 0)
				objects = append(objects, e)
			}
			report := scene{pod: db0("data"), objects: objects}.mustRun(t)
			var reasons []string
			for _, e := range report.Claims[0].Events {
				reasons = append(reasons, e.Reason)
			}
			if got := strings.Join(reasons, " "); got != tc.want {
				t.Errorf("events %q, want %q", got, tc.want)
			}
			wantWords(t, "verdict", report.Verdict, tc.verdict)
			if newest := tc.events[len(tc.events)-1]; tc.apart > 0 && report.Claims[0].Events[0].From != newest.ReportingController {
				t.Errorf("from %q, want %q", report.Claims[0].Events[0].From, newest.ReportingController)
			}
		})
	}
}

func TestTextSendsNothingToTheTerminal(t *testing.T) {
	data := testkit.Claim("data").Class("fast")
	event := testkit.Event("e", data.PersistentVolumeClaim, v1.EventTypeWarning, "ProvisioningFailed", "red \x1b[31m\r\nand \x07 loud", now)
	var out strings.Builder
	if err := (scene{pod: db0("data"), objects: []runtime.Object{data, event}}).mustRun(t).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\r\x07") || !strings.Contains(out.String(), "[31m and") {
		t.Errorf("text %q", out.String())
	}
}
