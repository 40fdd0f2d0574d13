package faults_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/faultproxy"
)

// stage is where a call is when prebind is killed.
type stage struct {
	scene func(*testing.T, *stand) *scene
	// reach sends the call and returns when it is at the stage.
	reach func(*scene) <-chan string
	// go on lets what the call waits for happen, after the restart.
	after func(*scene)
	// elsewhere is the code of the right answer for another node.
	elsewhere string
	// wrote is what all processes together may have written for the same node.
	wrote func(*scene) map[string]int
}

func theStages() map[string]stage {
	nothing := func(*scene) {}
	held := func(match func(*scene) faultproxy.Match, do faultproxy.Action, reached func(*scene, *faultproxy.Disturbance)) func(*scene) <-chan string {
		return func(s *scene) <-chan string {
			d := s.once(match(s), do)
			answer := s.call()
			reached(s, d)
			return answer
		}
	}
	arrived := func(s *scene, d *faultproxy.Disturbance) { s.arrived(d, 1) }
	stored := func(match func(*scene) faultproxy.Match) func(*scene, *faultproxy.Disturbance) {
		return func(s *scene, _ *faultproxy.Disturbance) { s.stored(match(s)) }
	}
	static := func(s *scene) map[string]int { return map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1} }
	dynamic := func(s *scene) map[string]int { return map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1} }
	provision := func(s *scene) { s.provisionByHand("data", s.node) }
	return map[string]stage{
		"before the claimRef is sent": {
			staticScene, held((*scene).claimRefPatch, faultproxy.Hold(), arrived), nothing, "", static,
		},
		"claimRef stored, answer not seen": {
			staticScene, held((*scene).claimRefPatch, faultproxy.HoldAnswer(), stored((*scene).claimRefPatch)), nothing, "NodeConflict", static,
		},
		"before selected-node is sent": {
			slowScene, held((*scene).selectedNodePatch, faultproxy.Hold(), arrived), provision, "", dynamic,
		},
		"selected-node stored, answer not seen": {
			slowScene, held((*scene).selectedNodePatch, faultproxy.HoldAnswer(), stored((*scene).selectedNodePatch)), provision, "SelectedNodeConflict", dynamic,
		},
		"waiting": {slowScene, (*scene).waiting, provision, "SelectedNodeConflict", dynamic},
		"before the Binding is sent": {
			staticScene, held((*scene).binding, faultproxy.Hold(), arrived), nothing, "NodeConflict", static,
		},
		"Binding stored, answer not seen": {
			staticScene, held((*scene).binding, faultproxy.HoldAnswer(), stored((*scene).binding)), nothing, "PodAssigned", static,
		},
	}
}

// prebind is killed at every stage, and a fresh process gets the call again.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, stage := range theStages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := ownStand(t)
			same, moved := stage.scene(t, on), stage.scene(t, on)
			elsewhere := moved.elsewhere()
			answers := []<-chan string{stage.reach(same), stage.reach(moved)}
			on.restart(t)
			on.proxy.Calm()
			for _, answer := range answers {
				if text := same.answer(answer); !strings.HasPrefix(text, "transport: ") {
					t.Errorf("a killed process has answered %q", text)
				}
			}

			t.Run("same node", func(t *testing.T) {
				s := same.in(t)
				answer := s.call()
				stage.after(s)
				s.succeeded(s.answer(answer), s.web, s.node)
				s.wrote(stage.wrote(s))
				if s.small != "" {
					s.owned("data", s.small)
					s.free(s.large)
				}
			})
			t.Run("another node", func(t *testing.T) {
				s := moved.in(t)
				s.movesTo(stage, elsewhere)
			})
		})
	}
}

// in returns the scene for a subtest.
func (s *scene) in(t *testing.T) *scene {
	inner := *s
	f := *s.fixture
	f.t = t
	inner.fixture = &f
	return &inner
}

// elsewhere makes a volume on the scene's other node, if its volumes are made
// in advance, and returns its name.
func (s *scene) elsewhere() string {
	s.t.Helper()
	if s.small == "" {
		return ""
	}
	return s.disk("elsewhere", s.className, s.other, "4Gi").Name
}

// movesTo sends the pod to the other node and checks that nothing is moved that
// was promised.
func (s *scene) movesTo(stage stage, elsewhere string) {
	s.t.Helper()
	claim := s.getClaim("data")
	answer := s.start(s.web, s.other)
	if stage.elsewhere == "" { // nothing was written: the pod is free to go
		if s.small == "" {
			s.provisionByHand("data", s.other)
			s.succeeded(s.answer(answer), s.web, s.other)
			return
		}
		s.succeeded(s.answer(answer), s.web, s.other)
		s.owned("data", elsewhere)
		s.free(s.small, s.large)
		return
	}
	text := s.answer(answer)
	switch stage.elsewhere {
	case "PodAssigned":
		s.answered(text, stage.elsewhere, s.node, s.other)
		s.checkBound(s.web, s.node)
		s.free(elsewhere)
	default:
		s.refused(text, s.web, stage.elsewhere, "claim "+s.ns+"/data", s.other)
		s.unmoved(claim)
		if elsewhere != "" {
			s.free(elsewhere)
		}
	}
}

// unmoved checks that the claim selects the node that it has selected.
func (s *scene) unmoved(before *v1.PersistentVolumeClaim) {
	s.t.Helper()
	was, is := before.Annotations[volume.AnnSelectedNode], s.getClaim("data").Annotations[volume.AnnSelectedNode]
	if was != is {
		s.t.Errorf("selected-node of claim data is %q, was %q", is, was)
	}
}
