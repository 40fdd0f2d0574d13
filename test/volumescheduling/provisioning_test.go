package volumescheduling_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// testProvisioning proves which claims of a pod are handed to the provisioner:
// those that wait and have no volume, for the pod's node, within the topology
// that their class allows; and no others, whatever else the pod mounts.
func testProvisioning(t *testing.T, r registration) {
	const (
		here      = "here"      // waits; may be provisioned on node 0 alone
		elsewhere = "elsewhere" // waits; may be provisioned on no node of the scene
	)
	tests := map[string]struct {
		volumes []volumeSpec
		static  []claimSpec // bound to a volume that is there, or made without a node
		made    []claimSpec // provisioned for the pod's node
		pending []claimSpec // not bound in the end
		pinned  bool        // the pod asks for node 0
		onNode0 bool        // the pod must be there, though it does not ask
	}{
		"one is made": {
			made: []claimSpec{{"c", delayed, ""}},
		},
		"one is made where its class allows it": {
			made: []claimSpec{{"c", here, ""}}, onNode0: true,
		},
		"the class allows no node": {
			pending: []claimSpec{{"c", elsewhere, ""}},
		},
		"the class of one claim of two allows no node": {
			pending: []claimSpec{{"c1", delayed, ""}, {"c2", elsewhere, ""}},
		},
		"one volume is there, one is made": {
			volumes: []volumeSpec{{"v", delayed, 0, ""}},
			static:  []claimSpec{{"c1", delayed, ""}},
			made:    []claimSpec{{"c2", delayed, ""}},
			pinned:  true,
		},
		"one immediate volume names its claim, one is made": {
			volumes: []volumeSpec{{"v", immediate, 0, "c1"}},
			static:  []claimSpec{{"c1", immediate, ""}},
			made:    []claimSpec{{"c2", delayed, ""}},
			onNode0: true,
		},
		"one waiting volume names its claim, one is made": {
			volumes: []volumeSpec{{"v", delayed, 0, "c1"}},
			static:  []claimSpec{{"c1", delayed, ""}},
			made:    []claimSpec{{"c2", delayed, ""}},
			pinned:  true,
		},
		"an immediate one is made without a node": {
			static: []claimSpec{{"c", immediate, ""}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, 2)
			s.create(
				s.class(delayed).Provisioner(driver).Obj(),
				s.class(immediate).Provisioner(driver).Immediate().Obj(),
				s.class(here).Provisioner(driver).AllowedTopology(v1.LabelHostname, s.nodes[0]).Obj(),
				s.class(elsewhere).Provisioner(driver).AllowedTopology(v1.LabelHostname, "no-such-host").Obj(),
			)
			s.createVolumes(tc.volumes)
			static, made, pending := s.createClaims(tc.static), s.createClaims(tc.made), s.createClaims(tc.pending)
			pod := s.pod("web", slices.Concat(static, made, pending)...)
			if tc.pinned {
				pod.OnHost(s.nodes[0])
			}
			s.create(pod.Obj())
			if pending != nil {
				s.unschedulable("web", "didn't find available persistent volumes to bind")
				s.untouched(pending...)
				s.settled()
				return
			}
			node := s.bound("web")[0].Spec.NodeName
			if tc.onNode0 && node != s.nodes[0] {
				t.Errorf("the pod is on node %s, want %s", node, s.nodes[0])
			}
			s.provisionedAll(made, node)
			s.notProvisioned(static...)
			s.volumesAre(v1.VolumeBound, taken(tc.volumes, nil)...)
			s.settled()
		})
	}
}
