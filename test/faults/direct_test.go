package faults_test

import (
	"net/http"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// Writes of a static scene when prebind completes claims itself.
func (s *scene) phasePatch() faultproxy.Match {
	return faultproxy.Match{Verb: "patch", Resource: "persistentvolumes/status", Name: s.small}
}

func (s *scene) directWrites() map[string]int {
	return map[string]int{
		s.claimRefWrite(): 1, "patch persistentvolumes/status " + s.small: 1, "patch persistentvolumeclaims " + s.ns + "/data": 1, s.bindingWrite(): 1,
	}
}

// The PV controller stands still, so that all writes are prebind's. Whatever
// happens to one of them, each is carried out once, and in the end the controller
// agrees. Only after an unclear answer to the first it has to help.
func TestDirectEveryWriteSurvives(t *testing.T) {
	direct := ownStandWith(t, controlplane.PrebindOptions{Config: "volumes: {staticCompletion: Direct}"})
	writes := map[string]func(*scene) faultproxy.Match{
		"claimRef": (*scene).claimRefPatch, "phase": (*scene).phasePatch, "claim": (*scene).selectedNodePatch,
	}
	faults := map[string]struct {
		times   int
		unclear bool
		do      faultproxy.Action
	}{
		"nothing":                        {0, false, faultproxy.Action{}},
		"stored, answer lost":            {1, true, faultproxy.Lose()},
		"stored, answered 503":           {1, true, faultproxy.LoseAs(http.StatusServiceUnavailable)},
		"refused 503 three times":        {3, false, faultproxy.Answer(http.StatusServiceUnavailable)},
		"cut":                            {1, false, faultproxy.Cut()},
		"refused 409 though unchanged":   {1, false, faultproxy.Answer(http.StatusConflict)},
		"refused 404 though it is there": {1, false, faultproxy.Answer(http.StatusNotFound)},
	}
	for name, match := range writes {
		for fault, tc := range faults {
			t.Run(name+"/"+fault, func(t *testing.T) {
				s := staticScene(t, direct)
				thaw := shared.freeze(t)
				if tc.times > 0 {
					s.disturb(faultproxy.Rule{Match: match(s), Times: tc.times, Do: tc.do})
				}
				answer := s.call()
				helped := name == "claimRef" && tc.unclear
				if helped {
					s.stored(match(s))
					thaw()
				}
				s.succeeded(s.answer(answer), s.web, s.node)
				want := s.directWrites()
				if helped {
					want = map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1}
				}
				s.wrote(want)
				thaw()
				s.owned("data", s.small)
				s.free(s.large)
				s.settled()
			})
		}
	}
}

// Others write claim and volume between prebind's writes.
func TestDirectForeignWrites(t *testing.T) {
	direct := ownStandWith(t, controlplane.PrebindOptions{Config: "volumes: {staticCompletion: Direct}"})
	s := staticScene(t, direct)
	thaw := shared.freeze(t)
	s.once(s.phasePatch(), s.before(func() error { return s.patchVolume(s.small, `{"metadata":{"labels":{"example.com/theirs":"1"}}}`) }))
	s.once(s.selectedNodePatch(), s.before(func() error { return s.patchClaim("data", `{"metadata":{"labels":{"example.com/theirs":"1"}}}`) }))
	s.mustBind(s.web, s.node)
	s.statuses(s.phasePatch(), 409, 200)
	s.statuses(s.selectedNodePatch(), 409, 200)
	s.wrote(s.directWrites())
	if s.getVolume(s.small).Labels["example.com/theirs"] != "1" || s.getClaim("data").Labels["example.com/theirs"] != "1" {
		t.Error("what others wrote is lost")
	}
	thaw()
	s.settled()
}

// prebind is killed between its writes; the next attempt, after a restart, gets the
// pod bound with the help of the controller.
func TestDirectKilledBetweenItsWrites(t *testing.T) {
	direct := ownStandWith(t, controlplane.PrebindOptions{Config: "volumes: {staticCompletion: Direct}"})
	for name, match := range map[string]func(*scene) faultproxy.Match{
		"after claimRef": (*scene).phasePatch, "after the phase": (*scene).selectedNodePatch,
	} {
		t.Run(name, func(t *testing.T) {
			s := staticScene(t, direct)
			thaw := shared.freeze(t)
			d := s.always(match(s), faultproxy.Cut())
			s.call()
			s.arrived(d, 1)
			direct.restart(t)
			d.Stop()
			thaw()
			s.mustBind(s.web, s.node)
			s.owned("data", s.small)
			s.free(s.large)
			s.settled()
		})
	}
}

// freeze halts the controller manager until the function returned is called, or
// the test ends.
func (w *world) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	if err := w.cp.ControllerManager().Freeze(); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := w.cp.ControllerManager().Thaw(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// settled waits until the controller has made claim and volume Bound.
func (s *scene) settled() {
	s.t.Helper()
	s.eventually("claim and volume are Bound", func() bool {
		claim := s.getClaim("data")
		if claim.Status.Phase == v1.ClaimLost {
			s.t.Fatalf("the claim is Lost (volume %q)", claim.Spec.VolumeName)
		}
		return claim.Status.Phase == v1.ClaimBound && s.getVolume(s.small).Status.Phase == v1.VolumeBound
	})
}
