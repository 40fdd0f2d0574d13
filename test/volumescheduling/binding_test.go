package volumescheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The classes of the tables in this package. All of them have static volumes.
const (
	delayed   = "delayed"   // claims wait for a pod
	immediate = "immediate" // claims are bound at once
)

// volumeSpec is a local volume of a table: on the scene's nth node, and perhaps
// pre-bound to a claim by name.
type volumeSpec struct {
	name, class string
	node        int
	claim       string
}

// claimSpec is a claim of a table, perhaps for one volume by name.
type claimSpec struct{ name, class, volume string }

// createVolumes creates the volumes and waits until the PV controller has seen
// them: it binds claims only to volumes that it knows.
func (s *scene) createVolumes(specs []volumeSpec) {
	s.t.Helper()
	var objects []runtime.Object
	var names []string
	for _, spec := range specs {
		b := s.volume(spec.name, spec.class, spec.node)
		if spec.claim != "" {
			b.ClaimRef(s.ns, spec.claim, "")
		}
		objects, names = append(objects, b.Obj()), append(names, spec.name)
	}
	s.create(objects...)
	s.volumesAre(v1.VolumeAvailable, names...)
}

// createClaims creates the claims and returns their names.
func (s *scene) createClaims(specs []claimSpec) []string {
	s.t.Helper()
	var objects []runtime.Object
	var names []string
	for _, spec := range specs {
		b := s.claim(spec.name, spec.class)
		if spec.volume != "" {
			b.Volume(s.name(spec.volume))
		}
		objects, names = append(objects, b.Obj()), append(names, spec.name)
	}
	s.create(objects...)
	return names
}

// testBinding proves for every mix of classes and pre-bindings that one pod
// can have: if the static volumes suit, the pod is bound, with every claim, and
// no volume too many is taken; if they do not, the scheduler tells why, no claim
// is bound and every volume stays free.
func testBinding(t *testing.T, r registration) {
	const noVolume = "didn't find available persistent volumes to bind"
	tests := map[string]struct {
		volumes []volumeSpec
		claims  []claimSpec
		free    []string // volumes that must be left over
		refusal string   // the scheduler's words; empty: the pod is bound
	}{
		"immediate, a volume is there": {
			volumes: []volumeSpec{{"v", immediate, 0, ""}},
			claims:  []claimSpec{{"c", immediate, ""}},
		},
		"immediate, no volume": {
			claims: []claimSpec{{"c", immediate, ""}}, refusal: notAtOnce,
		},
		"immediate, the claim names the volume": {
			volumes: []volumeSpec{{"v", immediate, 0, ""}},
			claims:  []claimSpec{{"c", immediate, "v"}},
		},
		"immediate, the volume names the claim": {
			volumes: []volumeSpec{{"v", immediate, 0, "c"}},
			claims:  []claimSpec{{"c", immediate, ""}},
		},
		"waiting, a volume is there": {
			volumes: []volumeSpec{{"v", delayed, 0, ""}},
			claims:  []claimSpec{{"c", delayed, ""}},
		},
		"waiting, no volume": {
			claims: []claimSpec{{"c", delayed, ""}}, refusal: noVolume,
		},
		"waiting, the claim names the volume": {
			volumes: []volumeSpec{{"v", delayed, 0, ""}},
			claims:  []claimSpec{{"c", delayed, "v"}},
		},
		"waiting, the volume names the claim": {
			volumes: []volumeSpec{{"v", delayed, 0, "c"}},
			claims:  []claimSpec{{"c", delayed, ""}},
		},
		"two waiting, one node has both volumes": {
			volumes: []volumeSpec{{"v1", delayed, 1, ""}, {"v2", delayed, 1, ""}, {"lone", delayed, 0, ""}},
			claims:  []claimSpec{{"c1", delayed, ""}, {"c2", delayed, ""}},
			free:    []string{"lone"},
		},
		"two waiting, their volumes are on two nodes": {
			volumes: []volumeSpec{{"v1", delayed, 0, ""}, {"v2", delayed, 1, ""}},
			claims:  []claimSpec{{"c1", delayed, ""}, {"c2", delayed, ""}},
			free:    []string{"v1", "v2"},
			refusal: noVolume,
		},
		"one of each": {
			volumes: []volumeSpec{{"v1", immediate, 0, ""}, {"v2", delayed, 0, ""}, {"spare", delayed, 1, ""}},
			claims:  []claimSpec{{"c1", immediate, ""}, {"c2", delayed, ""}},
			free:    []string{"spare"},
		},
		"one of each, the immediate one cannot be bound": {
			volumes: []volumeSpec{{"v", delayed, 0, ""}},
			claims:  []claimSpec{{"c1", immediate, ""}, {"c2", delayed, ""}},
			free:    []string{"v"},
			refusal: notAtOnce,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, 2)
			s.create(s.class(delayed).Obj(), s.class(immediate).Immediate().Obj())
			s.createVolumes(tc.volumes)
			claims := s.createClaims(tc.claims)
			s.create(s.pod("web", claims...).Obj())
			if tc.refusal != "" {
				s.unschedulable("web", tc.refusal)
				s.untouched(claims...)
			} else {
				s.bound("web")
				s.claimsAre(v1.ClaimBound, claims...)
				s.volumesAre(v1.VolumeBound, taken(tc.volumes, tc.free)...)
			}
			s.volumesAre(v1.VolumeAvailable, tc.free...)
			s.settled()
		})
	}
}
