package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/controlplane"
)

// eventsBy lists the events that prebind has written about an object.
func (f *fixture) eventsBy(kind, name, reason string) []eventsv1.Event {
	f.t.Helper()
	list, err := f.client.EventsV1().Events(f.ns).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.ReportingController != "prebind.dev/prebind" || e.Regarding.Kind != kind || e.Regarding.Name != name || e.Reason != reason
	})
}

// told waits until there is such an event on pod web and on claim data, each with
// the other one as its related object, and checks their words.
func (f *fixture) told(reason, kind string, words ...string) {
	f.t.Helper()
	for _, about := range [][2]string{{"Pod", "web"}, {"PersistentVolumeClaim", "data"}} {
		f.eventually("there is an event "+reason+" on "+about[0]+" "+about[1], func() bool {
			return len(f.eventsBy(about[0], about[1], reason)) == 1
		})
		event := f.eventsBy(about[0], about[1], reason)[0]
		if event.Type != kind || event.Related == nil || event.Related.Kind == event.Regarding.Kind || event.Related.UID == "" || event.Regarding.UID == "" {
			f.t.Errorf("event %s of type %s on %v, related to %v", reason, event.Type, event.Regarding, event.Related)
		}
		for _, word := range words {
			if !strings.Contains(event.Note, word) {
				f.t.Errorf("the event on %s %s lacks %q: %s", about[0], about[1], word, event.Note)
			}
		}
	}
}

// Why provisioning failed stands on pod and claim, once however often it fails,
// and prebind does not quote itself.
func TestFailedProvisioningIsToldOnPodAndClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.dynamic("flaky", failing(2, "RWX is not supported"))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "ProvisioningFailed", "RWX is not supported")
	f.told("ProvisioningFailed", v1.EventTypeWarning, "claim "+f.ns+"/data (class "+class+")", node, "RWX is not supported")

	text := f.refused(pod, node, "ProvisioningFailed", "RWX is not supported")
	if strings.Contains(text, "pod "+f.ns+"/web") {
		t.Errorf("prebind gives its own event as the cause: %s", text)
	}
	f.eventually("the event is a series of two", func() bool {
		events := f.eventsBy("Pod", "web", "ProvisioningFailed")
		return len(events) == 1 && events[0].Series != nil && events[0].Series.Count == 2
	})
	f.mustBind(pod, node)
	if events := f.eventsBy("Pod", "web", "Bound"); len(events) > 0 {
		t.Errorf("nobody asked for events about bound pods: %v", events)
	}
}

func TestAVolumeThatDoesNotFitTheNodeIsToldOnPodAndClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	_, answer := waitingFor(f, a)
	provisionByHand(f, b)
	f.checkRefused(f.answer(answer), "NodeConflict")
	f.told("NodeConflict", v1.EventTypeWarning, "claim "+f.ns+"/data", "by-hand", a)
}

// The minute is a real one here.
func TestAPodThatWaitsForAMinuteSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	began := time.Now()
	pod, answer := waitingFor(f, node)
	err := wait.PollUntilContextTimeout(f.ctx, time.Second, time.Minute+patience, true, func(context.Context) (bool, error) {
		return len(f.eventsBy("Pod", "web", "WaitingForVolume")) > 0, nil
	})
	f.must(err)
	if took := time.Since(began); took < 50*time.Second {
		t.Errorf("the event came after %s", took)
	}
	f.told("WaitingForVolume", v1.EventTypeNormal, "waits for provisioner nobody.example/none to make a volume for node "+node)
	provisionByHand(f, node)
	if text := f.answer(answer); text != "" {
		t.Fatalf("the call: %s", text)
	}
	f.checkBound(pod, node)
}

func TestBoundPodsAreToldOfOnDemand(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	f.claim(newClaim("data", class))
	talkative := shared.startPrebind(t, controlplane.PrebindOptions{Name: f.name("talkative"), Config: "events: {bound: true}"})
	pod := f.pod(newPod("web", nobody, "data"))
	if text := f.bindBy(talkative, pod, node); text != "" {
		t.Fatal(text)
	}
	f.told("Bound", v1.EventTypeNormal, node, "claim "+f.ns+"/data has volume "+pv.Name)
}

// Events are off, or may not be written: all else works.
func TestWithoutEvents(t *testing.T) {
	tests := map[string]struct {
		start func(f *fixture) *controlplane.Prebind
		lines int // in the log, about events
	}{
		"they are off": {func(f *fixture) *controlplane.Prebind {
			return shared.startPrebind(f.t, controlplane.PrebindOptions{Name: f.name("quiet"), Config: "events: {enabled: false}"})
		}, 0},
		"the right is missing": {func(f *fixture) *controlplane.Prebind {
			return f.lacking(map[string][]string{"events": {"create", "patch"}}, controlplane.PrebindOptions{})
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			node := f.node("a", nil)
			f.claim(newClaim("data", f.dynamic("flaky", failing(2, "quota exceeded"))))
			pod := f.pod(newPod("web", nobody, "data"))
			p := tc.start(f)
			for range 2 {
				f.checkRefused(f.bindBy(p, pod, node), "ProvisioningFailed", "quota exceeded")
			}
			if text := f.bindBy(p, pod, node); text != "" {
				t.Fatal(text)
			}
			f.checkBound(pod, node)
			f.eventually("the log says what there is to say", func() bool { return f.linesAbout(p, "events.events.k8s.io") >= tc.lines })
			if n := f.linesAbout(p, "events.events.k8s.io"); n != tc.lines {
				t.Errorf("%d lines of the log are about events, want %d", n, tc.lines)
			}
			if events := f.eventsBy("Pod", "web", "ProvisioningFailed"); len(events) > 0 {
				t.Errorf("events: %v", events)
			}
		})
	}
}

// linesAbout counts the warnings about a right.
func (f *fixture) linesAbout(p *controlplane.Prebind, right string) int {
	f.t.Helper()
	lines, err := p.Logs()
	f.must(err)
	n := 0
	for _, line := range lines {
		if text, _ := line["right"].(string); line["level"] == "warn" && strings.Contains(text, right) {
			n++
		}
	}
	return n
}
