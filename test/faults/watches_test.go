package faults_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/faultproxy"
)

const (
	claims  = "persistentvolumeclaims"
	volumes = "persistentvolumes"
)

// hold makes the stand's caches of the resources lag, of all if none is named.
func (s *stand) hold(t *testing.T, resources ...string) (release func()) {
	if resources == nil {
		resources = []string{""}
	}
	var holds []*faultproxy.WatchHold
	for _, resource := range resources {
		holds = append(holds, s.proxy.HoldWatches(faultproxy.Match{Resource: resource}))
	}
	release = func() {
		for _, hold := range holds {
			hold.Release()
		}
	}
	t.Cleanup(release)
	return release
}

func TestWatchesBreakDuringAWait(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(s *scene){
		"cut": func(*scene) {},
		"cut, and refused for a while": func(s *scene) {
			s.disturb(faultproxy.Rule{Match: faultproxy.Match{Verb: "watch"}, Times: 12, Do: faultproxy.Answer(http.StatusServiceUnavailable)})
		},
		"cut, and too old to go on": func(s *scene) {
			s.disturb(faultproxy.Rule{Match: faultproxy.Match{Verb: "watch"}, Times: 8, Do: faultproxy.Answer(http.StatusGone)})
		},
	}
	for name, disturb := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := slowScene(t, ownStand(t))
			answer := s.waiting()
			disturb(s)
			if n := s.on.proxy.CutWatches(faultproxy.Match{}); n < 8 {
				t.Errorf("%d watches were open, want one for each of 8 resources", n)
			}
			s.provisionByHand("data", s.node)
			s.succeeded(s.answer(answer), s.web, s.node)
			s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
		})
	}
}

// Everything that the call is about is too new for the caches.
func TestCachesLag(t *testing.T) {
	t.Parallel()
	t.Run("all of them, a claim to be provisioned", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		release := on.hold(t)
		s := dynamicScene(t, on)
		answer := s.call()
		s.awaitSelectedNode()
		release()
		s.succeeded(s.answer(answer), s.web, s.node)
		s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
	})
	t.Run("all of them, a volume to be found", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		release := on.hold(t)
		s := staticScene(t, on)
		s.refused(s.bind(s.web, s.node), s.web, "NoVolume", "claim "+s.ns+"/data")
		s.wrote(map[string]int{})
		release()
		s.eventually("the watch has shown a volume", func() bool { return s.bind(s.web, s.node) == "" })
		s.checkBound(s.web, s.node)
	})
	for _, resource := range []string{"pods", "nodes"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			on := ownStand(t)
			on.hold(t, resource)
			s := staticScene(t, on)
			s.mustBind(s.web, s.node) // read live
			s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
		})
	}
	// The slow re-check finds what the watch does not show.
	t.Run("claims, until the safety check", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		on.hold(t, claims)
		s := staticScene(t, on)
		s.mustBind(s.web, s.node)
		s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
	})
}

// The caches show what is no longer so.
func TestCachesAreBehind(t *testing.T) {
	t.Parallel()
	// The claim has been bound by another replica. It gets no second volume, and
	// its pod no Binding before that is seen.
	for name, held := range map[string][]string{"claim": {claims}, "claim and volume": {claims, volumes}} {
		t.Run(name+" bound by another replica", func(t *testing.T) {
			t.Parallel()
			on := ownStand(t)
			s := staticScene(t, shared.b)
			s.at(on).watchesPass()
			release := on.hold(t, held...)
			s.mustBind(s.web, s.node)
			second := s.pod("second", "data")
			behind := s.at(on)
			answer := behind.start(second, s.node)
			if len(held) == 2 {
				behind.ended(s.claimRefPatch(), 1)
				behind.statuses(s.claimRefPatch(), http.StatusConflict)
				behind.notAnswered(answer)
			}
			release()
			behind.succeeded(behind.answer(answer), second, s.node)
			s.owned("data", s.small)
			s.free(s.large)
			behind.wrote(map[string]int{"create pods/binding " + s.ns + "/second": 1})
		})
	}
	t.Run("volume taken by a rival", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		s := staticScene(t, on)
		s.watchesPass()
		on.hold(t, volumes)
		s.must(s.rivalTakes(s.small))
		s.mustBind(s.web, s.node)
		s.rivalKeeps(s.small)
		s.owned("data", s.large)
		s.statuses(s.claimRefPatch(), http.StatusConflict)
	})
	// The cache shows the deleted claim, fully bound.
	t.Run("claim made anew", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		s := boundScene(t, on)
		s.watchesPass()
		release := on.hold(t, claims)
		s.must(s.replaceClaim("data"))
		s.refused(s.bind(s.web, s.node), s.web, "ClaimReplaced", "claim "+s.ns+"/data")
		release()
		// S27: the volume is the deleted claim's, so it is not a match.
		s.eventually("the watch has shown the young claim", func() bool {
			text := s.bind(s.web, s.node)
			return len(text) > 8 && text[:8] == "NoVolume"
		})
	})
	t.Run("S11, pod made anew", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		s := staticScene(t, on)
		s.cached()
		on.hold(t, "pods")
		s.must(s.replacePod("web", "data"))
		young := s.getPod("web")
		s.answered(s.bind(s.web, s.node), "PodReplaced", string(young.UID), string(s.web.UID))
		s.mustBind(young, s.node)
	})
	t.Run("S12, pod deleted during the wait", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		s := slowScene(t, on)
		s.cached()
		answer := s.waiting()
		on.hold(t, "pods")
		s.must(s.deletePod("web"))
		s.provisionByHand("data", s.node)
		s.answered(s.answer(answer), "PodNotFound", s.ns+"/web")
		s.wrote(map[string]int{s.selectedNodeWrite(): 1})
	})
	t.Run("S10, pod bound to another node by a rival", func(t *testing.T) {
		t.Parallel()
		on := ownStand(t)
		s := plainScene(t, on)
		s.cached()
		on.hold(t, "pods")
		s.must(s.rivalBinds(s.web, s.other))
		s.answered(s.bind(s.web, s.node), "PodAssigned", s.other, s.node)
		s.wrote(map[string]int{})
	})
}

// After a break the API server answers with a list that is older than what the
// replica had seen, as one that lags behind the others does.
func TestListIsStale(t *testing.T) {
	t.Parallel()
	t.Run("volumes: one that a rival has is free again", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, ownStand(t))
		list, err := s.client.CoreV1().PersistentVolumes().List(s.ctx, metav1.ListOptions{})
		s.must(err)
		s.must(s.rivalTakes(s.small))
		s.watchesPass()
		s.relist(volumes, list.ResourceVersion)
		s.mustBind(s.web, s.node)
		s.rivalKeeps(s.small)
		s.owned("data", s.large)
		s.statuses(s.claimRefPatch(), http.StatusConflict) // the stale list was believed, until then
	})
	t.Run("claims: one that is bound is unbound again", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, ownStand(t))
		list, err := s.client.CoreV1().PersistentVolumeClaims("").List(s.ctx, metav1.ListOptions{})
		s.must(err)
		s.mustBind(s.web, s.node)
		s.watchesPass()
		release := s.relist(claims, list.ResourceVersion)
		second := s.pod("second", "data")
		answer := s.start(second, s.node)
		release()
		s.succeeded(s.answer(answer), second, s.node)
		s.free(s.large)
		s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1, "create pods/binding " + s.ns + "/second": 1})
	})
}

// relist breaks the stand's watch of the resource, lets it list the state of the
// resourceVersion, and keeps it there until release.
func (f *fixture) relist(resource, resourceVersion string) (release func()) {
	f.t.Helper()
	on := f.on
	watch := faultproxy.Match{Verb: "watch", Resource: resource}
	lists := len(on.proxy.Requests(faultproxy.Match{Verb: "list", Resource: resource}))
	on.proxy.ServeStaleLists(resource, resourceVersion)
	release = on.hold(f.t, resource)
	f.once(watch, faultproxy.Answer(http.StatusGone)) // "too old": list again
	on.proxy.CutWatches(watch)
	f.ended(faultproxy.Match{Verb: "list", Resource: resource}, lists+1)
	f.eventually("the watch goes on from the stale list", func() bool { return on.proxy.OpenWatches(watch) == 1 })
	return release
}
