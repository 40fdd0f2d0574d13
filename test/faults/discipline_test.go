package faults_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/faultproxy"
)

// A time-out and another try on the same node: what is written stays, and is not
// written again.
func TestRetryAfterATimeOutWritesNothingNew(t *testing.T) {
	t.Parallel()
	s := slowScene(t, shared.hasty)
	for range 2 {
		s.refused(s.bind(s.web, s.node), s.web, "BindTimeout", "claim "+s.ns+"/data", "nobody.example/none")
		s.wrote(map[string]int{s.selectedNodeWrite(): 1})
	}
	s.provisionByHand("data", s.node)
	s.mustBind(s.web, s.node)
	s.wrote(map[string]int{s.selectedNodeWrite(): 1, s.bindingWrite(): 1})
	s.sent(2)
}

// sent checks how many writes were sent in all, refused ones included.
func (f *fixture) sent(want int) {
	f.t.Helper()
	if sent := f.requests(faultproxy.Match{Verb: faultproxy.Writes}); len(sent) != want {
		f.t.Errorf("%d writes were sent, want %d", len(sent), want)
	}
}

// A pod without claims that the caches know costs one request.
func TestPodWithoutClaimsCostsOneRequest(t *testing.T) {
	t.Parallel()
	s := plainScene(t, shared.a)
	s.cached()
	s.knows(s.node)
	before := len(s.requests())
	s.mustBind(s.web, s.node)
	if got := s.requests()[before:]; len(got) != 1 || got[0].Verb != "create" || got[0].Resource != "pods/binding" {
		t.Errorf("%d requests: %v", len(got), got)
	}
}

// knows returns when prebind's cache has the node.
func (f *fixture) knows(node string) {
	f.t.Helper()
	read := faultproxy.Match{Verb: "get", Resource: "nodes", Name: node}
	probe := f.pod("probe", "missing") // its claim is missing, so it is never bound
	f.eventually("node "+node+" is in prebind's cache", func() bool {
		// Once for admission, once for the live look at what seems to be missing.
		before := len(f.requests(read))
		f.refused(f.bind(probe, node), probe, "ClaimNotFound")
		return len(f.requests(read))-before <= 1
	})
}

// A bound claim costs one read and no write.
func TestBoundClaimCostsOneRead(t *testing.T) {
	t.Parallel()
	s := boundScene(t, shared.a)
	s.cached()
	before := len(s.requests())
	s.mustBind(s.web, s.node)
	var got []string
	for _, r := range s.requests()[before:] {
		got = append(got, r.Verb+" "+r.Object())
	}
	want := []string{"get persistentvolumeclaims " + s.ns + "/data", s.bindingWrite()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// One claim of a pod is written first, and then all others in one parallel round: all
// patches are under way before the first one is answered.
func TestClaimsAreWrittenInOneRound(t *testing.T) {
	t.Parallel()
	s := emptyScene(t, shared.a)
	local, dynamic := s.class("local", volume.NotSupportedProvisioner), s.class("dynamic", shared.disks.Name())
	want := map[string]int{}
	var claims []*v1.PersistentVolumeClaim
	var names []string
	for i := range 3 {
		disk := s.disk(fmt.Sprintf("disk-%d", i), local, s.node, "1Gi")
		claims = append(claims, s.claim(fmt.Sprintf("local-%d", i), local), s.claim(fmt.Sprintf("dynamic-%d", i), dynamic))
		want["patch persistentvolumes "+disk.Name] = 1
		want["patch persistentvolumeclaims "+s.ns+"/"+claims[len(claims)-1].Name] = 1
	}
	slices.SortFunc(claims, func(a, b *v1.PersistentVolumeClaim) int { return strings.Compare(string(a.UID), string(b.UID)) })
	var held []*faultproxy.Disturbance
	for i, claim := range claims {
		names = append(names, claim.Name)
		if i > 0 && strings.HasPrefix(claim.Name, "dynamic") {
			held = append(held, s.once(faultproxy.Match{Verb: "patch", Resource: "persistentvolumeclaims", Namespace: s.ns, Name: claim.Name}, faultproxy.Hold()))
		}
	}
	s.web = s.pod("web", names...)
	answer := s.call()
	for _, d := range held {
		s.arrived(d, 1)
	}
	for _, d := range held {
		d.Release()
	}
	s.succeeded(s.answer(answer), s.web, s.node)
	want[s.bindingWrite()] = 1
	s.wrote(want)
	s.sent(len(want))
}

// Many callers for the same pod and node: one set of writes.
func TestManyCallersWriteOnce(t *testing.T) {
	t.Parallel()
	s := staticScene(t, shared.a)
	held := s.once(s.claimRefPatch(), faultproxy.Hold())
	answers := make([]<-chan string, 10)
	for i := range answers {
		answers[i] = s.call()
	}
	s.arrived(held, 1)
	held.Release()
	for _, answer := range answers {
		s.succeeded(s.answer(answer), s.web, s.node)
	}
	s.wrote(map[string]int{s.claimRefWrite(): 1, s.bindingWrite(): 1})
	s.sent(2)
}

// The patches carry our fields, and what pins them to the object that was
// decided on; nothing else.
func TestWritesHaveOurFieldsAlone(t *testing.T) {
	t.Parallel()
	t.Run("claimRef", func(t *testing.T) {
		t.Parallel()
		s := staticScene(t, shared.a)
		claim, pv := s.getClaim("data"), s.getVolume(s.small)
		s.mustBind(s.web, s.node)
		s.hasBody(s.claimRefPatch(), map[string]string{
			"metadata.uid":             string(pv.UID),
			"metadata.resourceVersion": pv.ResourceVersion,
			"metadata.annotations." + volume.AnnBoundByController: "yes",
			"spec.claimRef.apiVersion":                            "v1",
			"spec.claimRef.kind":                                  "PersistentVolumeClaim",
			"spec.claimRef.namespace":                             s.ns,
			"spec.claimRef.name":                                  "data",
			"spec.claimRef.uid":                                   string(claim.UID),
			"spec.claimRef.resourceVersion":                       claim.ResourceVersion,
		})
	})
	t.Run("selected-node", func(t *testing.T) {
		t.Parallel()
		s := dynamicScene(t, shared.a)
		claim := s.getClaim("data")
		s.mustBind(s.web, s.node)
		s.hasBody(s.selectedNodePatch(), map[string]string{
			"metadata.uid":             string(claim.UID),
			"metadata.resourceVersion": claim.ResourceVersion,
			"metadata.annotations." + volume.AnnSelectedNode: s.node,
		})
	})
	t.Run("Binding", func(t *testing.T) {
		t.Parallel()
		s := plainScene(t, shared.a)
		s.mustBind(s.web, s.node)
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(s.requests(s.binding())[0].Body, nil, nil)
		s.must(err)
		want := &v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: s.node}}
		want.Kind, want.APIVersion = "Binding", "v1"
		want.Namespace, want.Name, want.UID = s.ns, "web", s.web.UID
		if diff := cmp.Diff(want, object); diff != "" {
			t.Errorf("Binding (-want +got):\n%s", diff)
		}
	})
}

// hasBody checks all fields of the last JSON patch that matches.
func (f *fixture) hasBody(m faultproxy.Match, want map[string]string) {
	f.t.Helper()
	sent := f.requests(m)
	last := sent[len(sent)-1]
	var body map[string]any
	f.must(json.Unmarshal(last.Body, &body))
	got := map[string]string{}
	flatten(body, nil, got)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("body of %s (-want +got):\n%s", last.String(), diff)
	}
}

// flatten lists the leaves of a JSON object under their paths. The names of our
// annotations have dots in them, which does no harm.
func flatten(object map[string]any, path []string, into map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		here := append(slices.Clone(path), key)
		if below, ok := object[key].(map[string]any); ok {
			flatten(below, here, into)
			continue
		}
		into[strings.Join(here, ".")] = fmt.Sprint(object[key])
	}
}

// A wait costs no requests beside the watches, however long it is and whatever
// changes meanwhile. The clock is another call on the same replica, for a claim
// that its cache lacks: such a claim, and nothing else, is read once at each slow
// re-check of a wait (every 10 s).
func TestWaitCostsNoRequests(t *testing.T) {
	t.Parallel()
	s := slowScene(t, ownStand(t))
	answer := s.waiting()
	before := len(s.requests())
	for n := range 50 {
		s.must(s.patchClaim("data", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n)))
	}
	s.watchesPass()
	s.notAnswered(answer)
	if got := s.requests()[before:]; len(got) != 0 {
		t.Errorf("the wait has made %d requests while others wrote, the first one is %s", len(got), got[0].String())
	}

	lag := s.on.proxy.HoldWatches(faultproxy.Match{Resource: "persistentvolumeclaims"})
	clock := slowScene(t, s.on)
	clockAnswer := clock.waiting()
	rechecks := faultproxy.Match{Verb: "get", Resource: "persistentvolumeclaims", Namespace: clock.ns, Name: "data"}
	known := len(clock.requests(rechecks))
	clock.ended(rechecks, known+2)
	s.notAnswered(answer)
	if got := s.requests()[before:]; len(got) != 0 {
		t.Errorf("the wait has made %d requests in two re-checks, the first one is %s", len(got), got[0].String())
	}
	if n := len(clock.requests(rechecks)) - known; n > 3 {
		t.Errorf("a claim that the cache lacks was read %d times in two re-checks", n)
	}
	lag.Release()
	for _, scene := range []*scene{s, clock} {
		scene.provisionByHand("data", scene.node)
	}
	s.succeeded(s.answer(answer), s.web, s.node)
	clock.succeeded(clock.answer(clockAnswer), clock.web, clock.node)
}

// watchesPass returns when the stand's watches of claims and volumes have shown
// everything that was written before: a static binding ends by them.
func (f *fixture) watchesPass() {
	f.t.Helper()
	barrier := staticScene(f.t, f.on)
	barrier.mustBind(barrier.web, barrier.node)
}
