package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/faultproxy"
)

// What another program writes to claim or volume between prebind's decision and its
// write costs a second try, and is kept.
func TestS03_ForeignWriteBeforeSelectedNode(t *testing.T) {
	t.Parallel()
	s := dynamicScene(t, shared.a)
	s.once(s.selectedNodePatch(), s.before(func() error {
		return s.patchClaim("data", `{"metadata":{"labels":{"example.com/theirs":"1"},
			"annotations":{"example.com/theirs":"1"},"finalizers":["example.com/theirs","kubernetes.io/pvc-protection"]}}`)
	}))
	s.mustBind(s.web, s.node)

	claim := s.getClaim("data")
	if claim.Labels["example.com/theirs"] != "1" || claim.Annotations["example.com/theirs"] != "1" || !slices.Contains(claim.Finalizers, "example.com/theirs") {
		t.Errorf("labels %v, annotations %v, finalizers %v: what others wrote is lost", claim.Labels, claim.Annotations, claim.Finalizers)
	}
	s.statuses(s.selectedNodePatch(), 409, 200)
	s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
	s.report(s.patchClaim("data", `{"metadata":{"finalizers":null}}`))
}

func TestS03_ForeignWriteBeforeClaimRef(t *testing.T) {
	t.Parallel()
	s := staticScene(t, shared.a)
	s.once(s.claimRefPatch(), s.before(func() error {
		return s.patchVolume(s.small, `{"metadata":{"labels":{"example.com/theirs":"1"}},
			"spec":{"mountOptions":["noatime"],"persistentVolumeReclaimPolicy":"Delete"}}`)
	}))
	s.mustBind(s.web, s.node)
	s.owned("data", s.small)

	pv := s.getVolume(s.small)
	if pv.Labels["example.com/theirs"] != "1" || len(pv.Spec.MountOptions) != 1 || pv.Spec.PersistentVolumeReclaimPolicy != "Delete" {
		t.Errorf("labels %v, mountOptions %v, reclaim policy %s: what others wrote is lost",
			pv.Labels, pv.Spec.MountOptions, pv.Spec.PersistentVolumeReclaimPolicy)
	}
	s.statuses(s.claimRefPatch(), 409, 200)
	s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
}

// statuses checks what the API server answered to the requests, in their order.
func (f *fixture) statuses(m faultproxy.Match, want ...int) {
	f.t.Helper()
	var got []int
	for _, r := range f.requests(m) {
		got = append(got, r.Status)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s %s: the API server answered %v, want %v", m.Verb, m.Resource, got, want)
	}
}

func TestS03_ConflictsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const times = 4
	t.Run("selected-node", func(t *testing.T) {
		t.Parallel()
		s := dynamicScene(t, shared.a)
		s.disturb(faultproxy.Rule{Match: s.selectedNodePatch(), Times: times, Do: s.before(s.numbered(s.patchClaim, "data"))})
		s.mustBind(s.web, s.node)
		s.statuses(s.selectedNodePatch(), 409, 409, 409, 409, 200)
		if labels := s.getClaim("data").Labels; len(labels) != times {
			t.Errorf("labels %v, others have written %d", labels, times)
		}
		s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
	})
	t.Run("claimRef", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.disturb(faultproxy.Rule{Match: s.claimRefPatch(), Times: times, Do: s.before(s.numbered(s.patchVolume, s.small))})
		s.mustBind(s.web, s.node)
		s.owned("data", s.small)
		s.statuses(s.claimRefPatch(), 409, 409, 409, 409, 200)
		if labels := s.getVolume(s.small).Labels; len(labels) != times {
			t.Errorf("labels %v, others have written %d", labels, times)
		}
		s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
	})
}

// numbered adds another label each time it is called.
func (f *fixture) numbered(patch func(name, patch string) error, name string) func() error {
	n := 0
	return func() error {
		n++
		return patch(name, fmt.Sprintf(`{"metadata":{"labels":{"example.com/theirs-%d":"1"}}}`, n))
	}
}

// Somebody who never stops writing gets the call an error, not a loop.
func TestS03_ConflictsWithoutEnd(t *testing.T) {
	t.Parallel()
	s := dynamicScene(t, shared.a)
	endless := s.always(s.selectedNodePatch(), s.before(s.numbered(s.patchClaim, "data")))
	s.refused(s.bind(s.web, s.node), s.web, "Conflict", "persistentvolumeclaims "+s.ns+"/data", "others keep writing it")
	if n := len(s.requests(s.selectedNodePatch())); n > 10 {
		t.Errorf("%d patches were tried", n)
	}
	s.wrote(map[string]int{})
	endless.Stop()
	s.mustBind(s.web, s.node)
}

func TestS03_SelectedNodeIsWrittenByAnotherBinder(t *testing.T) {
	t.Parallel()
	t.Run("for the same node", func(t *testing.T) {
		t.Parallel()
		s := dynamicScene(t, shared.a)
		s.once(s.selectedNodePatch(), s.before(func() error { return s.selectNode("data", s.node) }))
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
	t.Run("for another node", func(t *testing.T) {
		t.Parallel()
		s := slowScene(t, shared.a)
		s.once(s.selectedNodePatch(), s.before(func() error { return s.selectNode("data", s.other) }))
		s.refused(s.bind(s.web, s.node), s.web, "SelectedNodeConflict", "claim "+s.ns+"/data", s.other, s.node)
		if got := s.getClaim("data").Annotations[volume.AnnSelectedNode]; got != s.other {
			t.Errorf("selected-node is %q, want it left at %s", got, s.other)
		}
		s.wrote(map[string]int{})
	})
}

// The rival's claimRef comes between decision and write: S01 for the loser.
func TestS01_VolumeIsLostBetweenDecisionAndWrite(t *testing.T) {
	t.Parallel()
	t.Run("another one is taken", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.once(s.claimRefPatch(), s.before(func() error { return s.rivalTakes(s.small) }))
		s.mustBind(s.web, s.node)
		s.owned("data", s.large)
		s.rivalKeeps(s.small)
		s.statuses(s.claimRefPatch(), 409)
		s.wrote(map[string]int{"patch persistentvolumes " + s.large: 1, s.bindingWrite(): 1})
	})
	t.Run("there is no other", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.once(s.claimRefPatch(), s.before(func() error { return s.rivalTakes(s.small) }))
		large := s.claimRefPatch()
		large.Name = s.large
		s.once(large, s.before(func() error { return s.rivalTakes(s.large) }))
		s.refused(s.bind(s.web, s.node), s.web, "NoVolume", "claim "+s.ns+"/data", s.node, "claimed by claim "+s.ns+"/rival")
		s.rivalKeeps(s.small)
		s.rivalKeeps(s.large)
		s.wrote(map[string]int{})
	})
	t.Run("it is deleted", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.once(s.claimRefPatch(), s.before(func() error { return s.deleteVolume(s.small) }))
		s.mustBind(s.web, s.node)
		s.owned("data", s.large)
		s.wrote(map[string]int{"patch persistentvolumes " + s.large: 1, s.bindingWrite(): 1})
	})
	t.Run("it no longer fits the node", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.once(s.claimRefPatch(), s.before(func() error {
			return s.patchVolume(s.small, `{"spec":{"storageClassName":"other"}}`)
		}))
		s.mustBind(s.web, s.node)
		s.owned("data", s.large)
		s.free(s.small)
	})
	t.Run("it becomes this claim's own", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		claim := s.getClaim("data")
		s.once(s.claimRefPatch(), s.before(func() error {
			return s.patchVolume(s.small, `{"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":"`+
				s.ns+`","name":"data","uid":"`+string(claim.UID)+`"}}}`)
		}))
		s.mustBind(s.web, s.node)
		s.owned("data", s.small)
		s.wrote(map[string]int{s.bindingWrite(): 1})
	})
}

// The claim goes, and one of its name comes, between decision and write.
func TestClaimIsMadeAnewBetweenDecisionAndWrite(t *testing.T) {
	t.Parallel()
	t.Run("before selected-node", func(t *testing.T) {
		t.Parallel()
		s := slowScene(t, shared.a)
		s.once(s.selectedNodePatch(), s.before(func() error { return s.replaceClaim("data") }))
		s.refused(s.bind(s.web, s.node), s.web, "ClaimReplaced", "claim "+s.ns+"/data")
		if got, ok := s.getClaim("data").Annotations[volume.AnnSelectedNode]; ok {
			t.Errorf("the young claim has selected-node %s", got)
		}
		s.wrote(map[string]int{})
	})
	t.Run("before a claimRef that conflicts", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		s.once(s.claimRefPatch(), s.before(func() error {
			if err := s.replaceClaim("data"); err != nil {
				return err
			}
			return s.rivalTakes(s.small)
		}))
		s.refused(s.bind(s.web, s.node), s.web, "ClaimReplaced", "claim "+s.ns+"/data")
		s.rivalKeeps(s.small)
		s.free(s.large)
	})
}
