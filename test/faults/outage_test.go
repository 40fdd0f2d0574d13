package faults_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// The tests of this file take down what all others stand on: they do not run in
// parallel with any.

// kill kills a program of the control plane and returns what starts it again.
func kill(t *testing.T, p *controlplane.Process) (start func()) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	start = func() {
		if p.Running() {
			return
		}
		if err := p.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(start)
	return start
}

// awake returns when the PV controller watches classes and claims again. Until
// then it does not know new classes, and binds a claim whose class it does not
// know at once, without waiting for a pod. It is started anew, since its watches
// pause for up to a minute once they have failed.
func awake(t *testing.T) {
	t.Helper()
	kill(t, shared.cp.ControllerManager())()
	f := newFixture(t, shared.a)
	f.claim("data", f.class("awake", volume.NotSupportedProvisioner))
	f.eventually("the PV controller knows a new class", func() bool {
		events, err := f.client.CoreV1().Events(f.ns).List(f.ctx, metav1.ListOptions{FieldSelector: "reason=WaitForFirstConsumer"})
		f.must(err)
		return len(events.Items) > 0
	})
}

// Waits outlive the API server: when it is back, they go on and end well.
func TestAPIServerIsRestartedDuringWaits(t *testing.T) {
	const waits = 10
	var scenes []*scene
	var answers []<-chan string
	for range waits {
		s := slowScene(t, shared.a)
		scenes, answers = append(scenes, s), append(answers, s.waiting())
	}
	start := kill(t, shared.cp.APIServer())
	// A call that comes now is told so, or waits with the others.
	text := scenes[0].at(shared.hasty).bind(scenes[0].web, scenes[0].node)
	if !strings.HasPrefix(text, "APIError: ") && !strings.HasPrefix(text, "BindTimeout: ") {
		t.Errorf("a call without an API server was answered %q", text)
	}
	for i, s := range scenes {
		s.notAnswered(answers[i])
	}
	start()
	awake(t)
	for i, s := range scenes {
		s.provisionByHand("data", s.node)
		s.succeeded(s.answer(answers[i]), s.web, s.node)
		s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
	}
}

// S08: the API server dies with the write: the call fails, or goes through when
// it is back. It is never answered wrongly.
func TestS08_APIServerIsRestartedDuringWrites(t *testing.T) {
	writes := theWrites()
	scenes, answers := map[string]*scene{}, map[string]<-chan string{}
	for name, w := range writes {
		s := w.scene(t, shared.a)
		held := s.once(w.match(s), faultproxy.Hold())
		scenes[name], answers[name] = s, s.call()
		s.arrived(held, 1)
	}
	start := kill(t, shared.cp.APIServer())
	shared.a.proxy.Calm()
	for name, w := range writes {
		scenes[name].ended(w.match(scenes[name]), 1) // cut: nobody was there
	}
	start()
	awake(t)
	for name, w := range writes {
		t.Run(name, func(t *testing.T) {
			s := scenes[name].in(t)
			if text := s.answer(answers[name]); text != "" {
				// An API server refuses everything by RBAC until it has read the roles.
				if !strings.HasPrefix(text, "APIError: ") && !strings.HasPrefix(text, "Forbidden: ") {
					t.Errorf("answer %q, want APIError or Forbidden", text)
				}
				s.mustBind(s.web, s.node)
			}
			w.afterwards(s)
		})
	}
}

// S08 as etcd makes it: the store stands still when the Binding comes.
func TestS08_EtcdStandsStillDuringTheBinding(t *testing.T) {
	s := plainScene(t, shared.a)
	s.cached()
	held := s.once(s.binding(), faultproxy.Hold())
	answer := s.call()
	s.arrived(held, 1)
	s.must(shared.cp.Etcd().Freeze())
	thaw := func() { s.report(shared.cp.Etcd().Thaw()) }
	t.Cleanup(thaw)
	held.Release()
	s.ended(s.binding(), 1) // timed out
	thaw()
	s.succeeded(s.answer(answer), s.web, s.node)
	s.eventually("one Binding in effect", func() bool { return s.getPod("web").Spec.NodeName == s.node })
}

// The controller manager dies between claimRef and the end of the binding.
func TestControllerManagerIsKilledInMidBinding(t *testing.T) {
	s := staticScene(t, shared.a)
	start := kill(t, shared.cp.ControllerManager())
	answer := s.call()
	s.stored(s.claimRefPatch())
	s.notAnswered(answer)
	start()
	s.succeeded(s.answer(answer), s.web, s.node)
	s.owned("data", s.small)
	s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
}
