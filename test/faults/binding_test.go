package faults_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/prebind/prebind/test/faultproxy"
)

func (s *scene) podRead() faultproxy.Match {
	return faultproxy.Match{Verb: "get", Resource: "pods", Namespace: s.ns, Name: s.web.Name}
}

// cached returns when prebind's cache has the scene's pod: from then on it reads
// the pod from the API server only to settle what became of a Binding.
func (s *scene) cached() {
	s.t.Helper()
	s.eventually("pod "+s.web.Name+" is in prebind's cache", func() bool {
		before := len(s.requests(s.podRead()))
		s.answered(s.bind(s.web, s.name("nowhere")), "NodeNotFound")
		return len(s.requests(s.podRead())) == before
	})
}

// While the Binding is under way others act on the pod.
func TestS08_PodChangesUnderTheBinding(t *testing.T) {
	t.Parallel()
	others := map[string]struct {
		do   func(*scene) error
		code string // of the right answer; empty: success
	}{
		"it is deleted":             {func(s *scene) error { return s.deletePod("web") }, "PodNotFound"},
		"it is made anew":           {func(s *scene) error { return s.replacePod("web", "data") }, "PodReplaced"},
		"a rival takes this node":   {func(s *scene) error { return s.rivalBinds(s.web, s.node) }, ""},
		"a rival takes another one": {func(s *scene) error { return s.rivalBinds(s.web, s.other) }, "PodAssigned"},
	}
	moments := map[string]func(s *scene, action faultproxy.Action){
		"before it arrives": func(s *scene, action faultproxy.Action) { s.once(s.binding(), action) },
		"after it was refused": func(s *scene, action faultproxy.Action) {
			s.once(s.binding(), faultproxy.Answer(http.StatusServiceUnavailable))
			s.once(s.podRead(), action)
		},
		"after its connection was cut": func(s *scene, action faultproxy.Action) {
			s.once(s.binding(), faultproxy.Cut())
			s.once(s.podRead(), action)
		},
	}
	for moment, disturb := range moments {
		for what, tc := range others {
			t.Run(what+" "+moment, func(t *testing.T) {
				t.Parallel()
				s := staticScene(t, shared.a)
				s.cached()
				disturb(s, s.before(func() error { return tc.do(s) }))
				text := s.bind(s.web, s.node)
				// Whatever was answered, prebind's own Binding did nothing.
				s.wrote(map[string]int{s.claimRefWrite(): 1})
				if tc.code == "" {
					s.succeeded(text, s.web, s.node)
					return
				}
				s.answered(text, tc.code, s.ns+"/web")
				if tc.code == "PodReplaced" && s.getPod("web").Spec.NodeName != "" {
					t.Error("the young pod is bound, and nobody has asked for it")
				}
				s.checkFullyBound("data")
			})
		}
	}
}

// The Binding is stored and its answer lost; then the pod goes.
func TestS08_PodGoesAfterItWasBound(t *testing.T) {
	t.Parallel()
	others := map[string]struct {
		do   func(*scene) error
		code string
	}{
		"deleted":   {func(s *scene) error { return s.deletePod("web") }, "PodNotFound"},
		"made anew": {func(s *scene) error { return s.replacePod("web") }, "PodReplaced"},
	}
	for what, tc := range others {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := plainScene(t, shared.a)
			s.cached()
			s.once(s.binding(), faultproxy.Lose())
			s.once(s.podRead(), s.before(func() error { return tc.do(s) }))
			s.answered(s.bind(s.web, s.node), tc.code, s.ns+"/web")
			s.wrote(map[string]int{s.bindingWrite(): 1})
		})
	}
}

// What became of the Binding can not be read at first.
func TestS08_OutcomeCanNotBeRead(t *testing.T) {
	t.Parallel()
	t.Run("at first", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.a)
		s.cached()
		s.once(s.binding(), faultproxy.Lose())
		s.disturb(faultproxy.Rule{Match: s.podRead(), Times: 2, Do: faultproxy.Answer(http.StatusInternalServerError)})
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
	t.Run("at all", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.a)
		s.cached()
		s.once(s.binding(), faultproxy.Lose())
		unread := s.always(s.podRead(), faultproxy.Answer(http.StatusInternalServerError))
		s.answered(s.bind(s.web, s.node), "APIError", "pod "+s.ns+"/web", s.node, "is not known")
		unread.Stop()
		// The next call sees it, and writes nothing.
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
}

// S10: a bound pod is bound again.
func TestS10_RepeatedCallWritesNothing(t *testing.T) {
	t.Parallel()
	s := staticScene(t, shared.a)
	s.mustBind(s.web, s.node)
	before := len(s.requests(faultproxy.Match{Verb: faultproxy.Writes}))
	s.mustBind(s.web, s.node)
	s.answered(s.bind(s.web, s.other), "PodAssigned", s.node, s.other)
	if after := len(s.requests(faultproxy.Match{Verb: faultproxy.Writes})); after != before {
		t.Errorf("%d more writes were sent", after-before)
	}
	s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
}

// The API server refuses a Binding by its UID with 409: final, in one request.
func TestS11_BindingIsRefusedByItsUID(t *testing.T) {
	t.Parallel()
	s := plainScene(t, shared.a)
	refused := s.always(s.binding(), faultproxy.Answer(http.StatusConflict))
	s.refused(s.bind(s.web, s.node), s.web, "Conflict", "pod "+s.ns+"/web", s.node)
	if refused.Hits() != 1 {
		t.Errorf("the Binding was sent %d times, want 1", refused.Hits())
	}
	refused.Stop()
	s.mustBind(s.web, s.node)
}

// A Binding that has been sent is followed to its outcome, whoever has gone.
func TestS08_CallerHangsUpWhileTheBindingIsHeld(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]faultproxy.Action{"Binding": faultproxy.Hold(), "answer": faultproxy.HoldAnswer()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := plainScene(t, shared.a)
			held := s.once(s.binding(), do)
			ctx, cancel := context.WithCancel(s.ctx)
			answer := s.hasContext(ctx).start(s.web, s.node)
			s.arrived(held, 1)
			cancel()
			s.answer(answer)
			// The next call waits for the first one's Binding.
			second := s.call()
			held.Release()
			s.succeeded(s.answer(second), s.web, s.node)
			s.wrote(map[string]int{s.bindingWrite(): 1})
		})
	}
}

// The call's time is over while the Binding is under way.
func TestS08_BindingIsHeldBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	t.Run("and gets through", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.hasty)
		held := s.once(s.binding(), faultproxy.Hold())
		answer := s.call()
		s.arrived(held, 1)
		s.deadlinePasses()
		s.notAnswered(answer)
		held.Release()
		s.succeeded(s.answer(answer), s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
	t.Run("and never gets through", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.hasty)
		held := s.always(s.binding(), faultproxy.Hold())
		s.refused(s.bind(s.web, s.node), s.web, "BindTimeout", "pod "+s.ns+"/web", s.node)
		if held.Hits() != 1 {
			t.Errorf("the Binding was sent %d times: the deadline was over after the first", held.Hits())
		}
		held.Stop()
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
	t.Run("and is stored, but its answer never comes", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.hasty)
		s.always(s.binding(), faultproxy.HoldAnswer())
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
}

// deadlinePasses returns when a call that is sent now has timed out: so have
// all that the stand was sent before.
func (f *fixture) deadlinePasses() {
	f.t.Helper()
	clock := slowScene(f.t, f.on)
	clock.refused(clock.bind(clock.web, clock.node), clock.web, "BindTimeout")
}
