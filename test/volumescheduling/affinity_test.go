package volumescheduling_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/prebind/prebind/test/build"
)

// besidePods is how a pod stands to the other pods of its scene, node by node.
type besidePods func(*v1.Pod)

func sceneTerms(pod *v1.Pod) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{sceneLabel: pod.Namespace}},
		TopologyKey:   v1.LabelHostname,
	}}
}

func apart(pod *v1.Pod) {
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: sceneTerms(pod)}}
}

func together(pod *v1.Pod) {
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: sceneTerms(pod)}}
}

// unevenVolumes makes many volumes on node 0 and one on each other node.
func (s *scene) unevenVolumes(onNode0 int) {
	s.t.Helper()
	var objects []runtime.Object
	for i := range onNode0 {
		objects = append(objects, s.volume(fmt.Sprintf("v0-%d", i), delayed, 0).Obj())
	}
	for node := 1; node < len(s.nodes); node++ {
		objects = append(objects, s.volume(fmt.Sprintf("v%d", node), delayed, node).Obj())
	}
	s.create(append(objects, s.class(delayed).Obj())...)
}

// startPods makes pods with one claim each and returns their names, which are
// those of the claims too.
func (s *scene) startPods(from, to int, beside besidePods, change func(*build.PodBuilder)) []string {
	s.t.Helper()
	var names []string
	for i := from; i < to; i++ {
		name := fmt.Sprintf("p%d", i)
		b := s.pod(name, name)
		change(b)
		pod := b.Obj()
		beside(pod)
		s.create(s.claim(name, delayed).Obj())
		s.create(pod)
		names = append(names, name)
	}
	return names
}

func nodesOf(pods []*v1.Pod) sets.Set[string] {
	nodes := sets.New[string]()
	for _, pod := range pods {
		nodes.Insert(pod.Spec.NodeName)
	}
	return nodes
}

// testPodAntiAffinity proves that volumes do not pull pods together that must
// be apart: most of the free volumes are on one node, yet each pod gets a node,
// and a volume, of its own.
func testPodAntiAffinity(t *testing.T, r registration) {
	for _, tc := range []struct{ nodes, onNode0 int }{{10, 100}, {100, 10}} {
		t.Run(fmt.Sprintf("%d nodes, %d volumes on the first", tc.nodes, tc.onNode0), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, tc.nodes)
			s.unevenVolumes(tc.onNode0)
			names := s.startPods(0, 10, apart, func(*build.PodBuilder) {})
			if got := nodesOf(s.bound(names...)); got.Len() != len(names) {
				t.Errorf("%d pods that must be apart are on %d nodes: %v", len(names), got.Len(), sets.List(got))
			}
			s.claimsAre(v1.ClaimBound, names...)
			s.settled()
		})
	}
}

// testPodAffinity proves that pods which must be together are bound with
// volumes of the node that the first of them is on, though most of the free
// volumes are elsewhere.
func testPodAffinity(t *testing.T, r registration) {
	const pods = 10
	s := newScene(t, r, 10*pods)
	s.unevenVolumes(pods)
	first := s.startPods(0, 1, together, func(b *build.PodBuilder) { b.OnHost(s.nodes[0]) })
	s.bound(first...)
	names := slices.Concat(first, s.startPods(1, pods, together, func(*build.PodBuilder) {}))
	if got := nodesOf(s.bound(names...)); !got.Equal(sets.New(s.nodes[0])) {
		t.Errorf("pods that must be together are on %v, want %s alone", sets.List(got), s.nodes[0])
	}
	s.claimsAre(v1.ClaimBound, names...)
	s.settled()
}

// testNodeConflict proves that a claim which is bound already decides where its
// pods can be: one that asks for another node is refused, by whatever means it
// asks, and leaves claim and volume as they are; one that does not ask goes to
// the volume's node.
func testNodeConflict(t *testing.T, r registration) {
	s := newScene(t, r, 3)
	s.create(s.class(immediate).Immediate().Obj())
	s.createVolumes([]volumeSpec{{"v", immediate, 0, ""}})
	s.create(s.claim("c", immediate).Obj())
	s.claimsAre(v1.ClaimBound, "c")
	before := s.getClaim("c")

	s.create(s.pod("selector", "c").OnHost(s.nodes[1]).Obj(), requires(s.pod("affinity", "c").Obj(), s.nodes[1]))
	for _, name := range []string{"selector", "affinity"} {
		s.unschedulable(name, "node(s) didn't match Pod's node affinity/selector")
	}
	after := s.getClaim("c")
	if diff := cmp.Diff(before.Spec, after.Spec) + cmp.Diff(before.Annotations, after.Annotations); diff != "" {
		t.Errorf("claim c was changed (-before +after):\n%s", diff)
	}
	s.create(s.pod("free", "c").Obj())
	if node := s.bound("free")[0].Spec.NodeName; node != s.nodes[0] {
		t.Errorf("the pod without a wish is on node %s, want %s", node, s.nodes[0])
	}
	s.settled()
}
