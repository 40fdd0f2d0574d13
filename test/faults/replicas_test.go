package faults_test

import (
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/faultproxy"
)

// S01 with two replicas: both have decided on the same volume before either has
// written it.
func TestS01_TwoReplicasWantTheSameVolume(t *testing.T) {
	t.Parallel()
	t.Run("there is another one", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		one, two := s.raceForSmall()
		s.succeeded(one.text, one.pod, s.node)
		s.succeeded(two.text, two.pod, s.node)
		volumesOf := map[string]string{}
		for _, claim := range []string{"data", "rival"} {
			volumesOf[s.getClaim(claim).Spec.VolumeName] = claim
		}
		if volumesOf[s.small] == "" || volumesOf[s.large] == "" {
			t.Errorf("claims by volume: %v, want one each of %s and %s", volumesOf, s.small, s.large)
		}
	})
	t.Run("there is no other", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.must(s.deleteVolume(s.large))
		one, two := s.raceForSmall()
		winner, loser := one, two
		if one.text != "" {
			winner, loser = two, one
		}
		s.succeeded(winner.text, winner.pod, s.node)
		s.refused(loser.text, loser.pod, "NoVolume", s.small, "claimed by claim "+s.ns+"/")
	})
}

// contender is one of two pods, and what it was told.
type contender struct {
	pod  *v1.Pod
	text string
}

// raceForSmall has the scene's pod bound by replica a, and another one by b. Both
// have decided on the small volume when they are let go.
func (s *scene) raceForSmall() (one, two contender) {
	s.t.Helper()
	atB := s.at(shared.b)
	s.claim("rival", s.className)
	one.pod, two.pod = s.web, s.pod("rival", "rival")
	s.watchesOfPass(shared.a, shared.b)
	heldA := s.once(s.claimRefPatch(), faultproxy.Hold())
	heldB := atB.once(s.claimRefPatch(), faultproxy.Hold())
	first, second := s.call(), atB.start(two.pod, s.node)
	s.arrived(heldA, 1)
	s.arrived(heldB, 1)
	heldA.Release()
	heldB.Release()
	one.text, two.text = s.answer(first), s.answer(second)
	return one, two
}

// watchesOfPass returns when the replicas know all volumes that there are.
func (f *fixture) watchesOfPass(stands ...*stand) {
	f.t.Helper()
	for _, on := range stands {
		f.at(on).watchesPass()
	}
}

// The scheduler's retry lands on the other replica while the first one is still
// at work.
func TestOnePodAtTwoReplicas(t *testing.T) {
	t.Parallel()
	t.Run("both before their first write", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.watchesOfPass(shared.a, shared.b)
		atB := s.at(shared.b)
		heldA := s.once(s.claimRefPatch(), faultproxy.Hold())
		heldB := atB.once(s.claimRefPatch(), faultproxy.Hold())
		first, second := s.call(), atB.start(s.web, s.node)
		s.arrived(heldA, 1)
		s.arrived(heldB, 1)
		heldA.Release()
		heldB.Release()
		s.succeeded(s.answer(first), s.web, s.node)
		s.succeeded(s.answer(second), s.web, s.node)
		s.owned("data", s.small)
		s.free(s.large)
		s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1}, shared.a, shared.b)
	})
	t.Run("both before selected-node", func(t *testing.T) {
		t.Parallel()
		s := slowScene(t, shared.a)
		atB := s.at(shared.b)
		heldA := s.once(s.selectedNodePatch(), faultproxy.Hold())
		heldB := atB.once(s.selectedNodePatch(), faultproxy.Hold())
		first, second := s.call(), atB.start(s.web, s.node)
		s.arrived(heldA, 1)
		s.arrived(heldB, 1)
		heldA.Release()
		heldB.Release()
		s.awaitSelectedNode()
		s.provisionByHand("data", s.node)
		s.succeeded(s.answer(first), s.web, s.node)
		s.succeeded(s.answer(second), s.web, s.node)
		s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1}, shared.a, shared.b)
	})
	t.Run("both before the Binding", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.a)
		atB := s.at(shared.b)
		heldA, heldB := s.once(s.binding(), faultproxy.Hold()), atB.once(s.binding(), faultproxy.Hold())
		first, second := s.call(), atB.start(s.web, s.node)
		s.arrived(heldA, 1)
		s.arrived(heldB, 1)
		heldA.Release()
		heldB.Release()
		s.succeeded(s.answer(first), s.web, s.node)
		s.succeeded(s.answer(second), s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1}, shared.a, shared.b)
	})
	t.Run("for another node, before the Binding", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.a)
		held := s.once(s.binding(), faultproxy.Hold())
		first := s.call()
		s.arrived(held, 1)
		s.at(shared.b).mustBind(s.web, s.other)
		held.Release()
		s.answered(s.answer(first), "PodAssigned", s.other, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1}, shared.a, shared.b)
		s.statuses(s.binding(), http.StatusConflict)
	})
}

// Replica a waits for a volume on the node when its caller goes away; the
// scheduler then asks replica b, for another node.
func TestOtherReplicaIsAskedForAnotherNode(t *testing.T) {
	t.Parallel()
	s := slowScene(t, shared.a)
	s.hangUp(func() { s.stored(s.selectedNodePatch()) })
	atB := s.at(shared.b)
	atB.refused(atB.bind(s.web, s.other), s.web, "SelectedNodeConflict", "claim "+s.ns+"/data", s.node, s.other)
	if got := s.getClaim("data").Annotations[volume.AnnSelectedNode]; got != s.node {
		t.Errorf("selected-node is %q, want it left at %s", got, s.node)
	}
	// For the first node b goes on where a has stopped.
	answer := atB.start(s.web, s.node)
	s.provisionByHand("data", s.node)
	atB.succeeded(atB.answer(answer), s.web, s.node)
	s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1}, shared.a, shared.b)
	atB.wrote(map[string]int{s.bindingWrite(): 1})
}

// One claim, two pods, a replica each.
func TestOneClaimInTwoPodsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	s := staticScene(t, shared.a)
	second := s.pod("second", "data")
	s.watchesOfPass(shared.a, shared.b)
	atB := s.at(shared.b)
	heldA := s.once(s.claimRefPatch(), faultproxy.Hold())
	heldB := atB.once(s.claimRefPatch(), faultproxy.Hold())
	first, other := s.call(), atB.start(second, s.node)
	s.arrived(heldA, 1)
	s.arrived(heldB, 1)
	heldA.Release()
	heldB.Release()
	s.succeeded(s.answer(first), s.web, s.node)
	s.succeeded(s.answer(other), second, s.node)
	s.free(s.large)
	s.wrote(map[string]int{
		s.claimRefWrite(): 1, s.bindingWrite(): 1, "create pods/binding " + s.ns + "/second": 1,
	}, shared.a, shared.b)
}
