package faults_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/faultproxy"
)

// scene is a pod "web" with its claim "data", and two nodes.
type scene struct {
	*fixture
	node, other  string
	className    string
	web          *v1.Pod
	small, large string // volumes of a static scene: prebind takes the small one
}

// staticScene has two volumes for the claim on the node. The claim fits both;
// the smaller one is what prebind chooses.
func staticScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := emptyScene(t, on)
	s.className = s.class("local", volume.NotSupportedProvisioner)
	s.small = s.disk("small", s.className, s.node, "1Gi").Name
	s.large = s.disk("large", s.className, s.node, "2Gi").Name
	s.claim("data", s.className)
	s.web = s.pod("web", "data")
	return s
}

// dynamicScene has a class whose provisioner makes a volume at once.
func dynamicScene(t *testing.T, on *stand) *scene {
	t.Helper()
	return provisionedScene(t, on, shared.disks.Name())
}

// slowScene has a class whose volumes come only from provisionByHand.
func slowScene(t *testing.T, on *stand) *scene {
	t.Helper()
	return provisionedScene(t, on, "nobody.example/none")
}

func provisionedScene(t *testing.T, on *stand, provisioner string) *scene {
	t.Helper()
	s := emptyScene(t, on)
	s.className = s.class("dynamic", provisioner)
	s.claim("data", s.className)
	s.web = s.pod("web", "data")
	return s
}

// plainScene has a pod without claims.
func plainScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := emptyScene(t, on)
	s.web = s.pod("web")
	return s
}

// boundScene has a pod whose claim is bound already.
func boundScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := emptyScene(t, on)
	s.className = s.class("local", volume.NotSupportedProvisioner)
	s.small = s.disk("small", s.className, s.node, "1Gi").Name
	s.claim("data", s.className)
	s.mustBind(s.pod("first", "data"), s.node)
	s.web = s.pod("web", "data")
	return s
}

func emptyScene(t *testing.T, on *stand) *scene {
	t.Helper()
	f := newFixture(t, on)
	return &scene{fixture: f, node: f.node("a"), other: f.node("b")}
}

// call sends the scene's bind call.
func (s *scene) call() <-chan string { return s.start(s.web, s.node) }

// claimRefPatch, selectedNodePatch and binding pick the scene's writes.
func (s *scene) claimRefPatch() faultproxy.Match {
	return faultproxy.Match{Verb: "patch", Resource: "persistentvolumes", Name: s.small}
}

func (s *scene) selectedNodePatch() faultproxy.Match {
	return faultproxy.Match{Verb: "patch", Resource: "persistentvolumeclaims", Namespace: s.ns, Name: "data"}
}

func (s *scene) binding() faultproxy.Match { return s.bindingOf(s.web) }

func (f *fixture) bindingOf(pod *v1.Pod) faultproxy.Match {
	return faultproxy.Match{Verb: "create", Resource: "pods/binding", Namespace: f.ns, Name: pod.Name}
}

// Names of the scene's writes, as faultproxy counts them.
func (s *scene) claimRefWrite() string { return "patch persistentvolumes " + s.small }

func (s *scene) selectedNodeWrite() string { return "patch persistentvolumeclaims " + s.ns + "/data" }
func (s *scene) bindingWrite() string      { return "create pods/binding " + s.ns + "/web" }

// disturb adds a rule to the proxy of the scene's stand.
func (f *fixture) disturb(rule faultproxy.Rule) *faultproxy.Disturbance {
	d := f.on.proxy.Disturb(rule)
	f.t.Cleanup(d.Stop)
	return d
}

// once disturbs the first request that matches.
func (f *fixture) once(m faultproxy.Match, do faultproxy.Action) *faultproxy.Disturbance {
	return f.disturb(faultproxy.Rule{Match: m, Times: 1, Do: do})
}

// always disturbs all requests that match.
func (f *fixture) always(m faultproxy.Match, do faultproxy.Action) *faultproxy.Disturbance {
	return f.disturb(faultproxy.Rule{Match: m, Do: do})
}

// arrived waits until the proxy has n requests that d disturbs.
func (f *fixture) arrived(d *faultproxy.Disturbance, n int) {
	f.t.Helper()
	f.must(d.WaitHits(f.inTime(), n))
}

// ended waits until n requests that match have ended.
func (f *fixture) ended(m faultproxy.Match, n int) []faultproxy.Request {
	f.t.Helper()
	requests, err := f.on.proxy.WaitRequests(f.inTime(), m, n)
	f.must(err)
	return requests
}

// stored waits until the API server has carried out a request that matches,
// whether or not the client knows.
func (f *fixture) stored(m faultproxy.Match) {
	f.t.Helper()
	f.eventually(m.Verb+" "+m.Resource+" "+m.Name+" is carried out", func() bool {
		return slices.ContainsFunc(f.requests(m), func(r faultproxy.Request) bool { return r.Status/100 == 2 })
	})
}

// waiting sends the scene's call and returns when it waits for a provisioner.
func (s *scene) waiting() <-chan string {
	s.t.Helper()
	answer := s.call()
	s.awaitSelectedNode()
	return answer
}

func (s *scene) awaitSelectedNode() {
	s.t.Helper()
	s.eventually("selected-node of claim data is "+s.node, func() bool {
		return s.getClaim("data").Annotations[volume.AnnSelectedNode] == s.node
	})
}

// provisionByHand does what a slow provisioner does in the end.
func (f *fixture) provisionByHand(claimName, node string) {
	f.t.Helper()
	claim := f.getClaim(claimName)
	pv := build.Volume(f.name("of-"+claimName)).Class(*claim.Spec.StorageClassName).Capacity("1Gi").OnNode(node).
		Annotation(volume.AnnDynamicallyProvisioned, "nobody.example/none").ClaimRef(f.ns, claimName, claim.UID).Obj()
	f.createVolume(pv)
}
