package volumescheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/test/provisioner"
)

// testRescheduling proves that a pod which was refused because something about
// its claim was missing is tried again, and bound, as soon as that comes.
func testRescheduling(t *testing.T, r registration) {
	const late = "late"
	claim := func(s *scene) { s.create(s.claim("c", late).Obj()) }
	class := func(s *scene) { s.create(s.class(late).Obj()) }
	disk := func(s *scene) { s.createVolumes([]volumeSpec{{"v", late, 0, ""}}) }
	tests := map[string]struct {
		before, then []func(*scene)
		refusal      string
	}{
		"a class with a provisioner comes": {
			before:  []func(*scene){claim},
			then:    []func(*scene){func(s *scene) { s.create(s.class(late).Provisioner(driver).Obj()) }},
			refusal: notAtOnce,
		},
		"a class of static volumes comes, then a volume": {
			before:  []func(*scene){claim},
			then:    []func(*scene){class, disk},
			refusal: notAtOnce,
		},
		"the claim comes": {
			before:  []func(*scene){class, disk},
			then:    []func(*scene){claim},
			refusal: `persistentvolumeclaim "c" not found`,
		},
		"a volume comes": {
			before:  []func(*scene){class, claim},
			then:    []func(*scene){disk},
			refusal: "didn't find available persistent volumes to bind",
		},
		"a node that can reach the volume comes": {
			before: []func(*scene){class, claim, func(s *scene) {
				s.nodes = append(s.nodes, s.name("late"))
				s.createVolumes([]volumeSpec{{"v", late, 1, ""}})
			}},
			then:    []func(*scene){func(s *scene) { s.create(s.node(1).Obj()) }},
			refusal: "didn't find available persistent volumes to bind",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, 1)
			for _, step := range tc.before {
				step(s)
			}
			s.create(s.pod("web", "c").Obj())
			s.unschedulable("web", tc.refusal)
			for _, step := range tc.then {
				step(s)
			}
			s.bound("web")
			s.claimsAre(v1.ClaimBound, "c")
			s.settled()
		})
	}
}

// testReprovisioning proves that a claim is not tied for ever to a node on
// which its volume could not be made: the provisioner's failure takes the
// selected node away, and then the volume is made on another node.
func testReprovisioning(t *testing.T, r registration) {
	t.Run("the node was selected before", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, r, 2)
		s.create(s.class("flaky").Provisioner(driver).Param(provisioner.Failures, "1").Obj())
		s.create(s.claim("c", "flaky").Annotation(selectedNode, s.nodes[0]).Obj())
		s.eventually(func() string {
			if node, ok := s.getClaim("c").Annotations[selectedNode]; ok {
				return "the provisioner has failed, but claim c still selects node " + node
			}
			return ""
		})
		s.create(s.pod("web", "c").OnHost(s.nodes[1]).Obj())
		s.bound("web")
		s.provisioned("c", s.nodes[1])
		s.settled()
	})
	t.Run("the node is taken out of service", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, r, 2)
		s.create(s.class("flaky").Provisioner(driver).Param(provisioner.FailNodes, s.nodes[0]).Obj())
		s.create(s.claim("c", "flaky").Obj())
		s.create(prefers(s.pod("web", "c").Obj(), s.nodes[0]))
		first, err := shared.disks.WaitAttempt(s.ctx, s.ns, "c", 1)
		s.must(err)
		if first.Node != s.nodes[0] {
			t.Errorf("the first attempt was on node %s, want %s", first.Node, s.nodes[0])
		}
		s.cordon(s.nodes[0])
		pod := s.bound("web")[0]
		if pod.Spec.NodeName != s.nodes[1] {
			t.Errorf("the pod is on node %s, want %s", pod.Spec.NodeName, s.nodes[1])
		}
		s.provisioned("c", s.nodes[1])
		s.settled()
	})
}
