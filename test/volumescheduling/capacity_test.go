package volumescheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noRoom is what the scheduler says when no reported capacity suffices.
const noRoom = "did not have enough free storage"

// capacity is what a driver would report for a class: so much on the nodes with
// the labels, on all nodes if there are none.
func (s *scene) capacity(name, class, quantity string, labels map[string]string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		TypeMeta:         metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity"},
		ObjectMeta:       metav1.ObjectMeta{Namespace: s.ns, Name: name},
		StorageClassName: s.name(class),
		NodeTopology:     &metav1.LabelSelector{MatchLabels: labels},
		Capacity:         new(resource.MustParse(quantity)),
	}
}

// testCapacity proves that the capacity a driver reports decides whether its
// volumes can be made, if and only if it says that it reports, and that a pod
// refused for lack of room is bound once there is some.
func testCapacity(t *testing.T, r registration) {
	tests := map[string]struct {
		driver string
		room   string // reported before the pod comes; empty: nothing is
		more   string // reported after the pod was refused; empty: it is not refused
	}{
		"the driver does not report":                           {driver: driver},
		"the driver does not report, its objects do not count": {driver: driver, room: "1Mi"},
		"the driver says so, its objects do not count":         {driver: driverSilent, room: "1Mi"},
		"there is room": {driver: driverOne, room: "6Gi"},
		"nothing is reported, then there is room":        {driver: driverOne, more: "6Gi"},
		"there is too little room, then there is enough": {driver: driverOne, room: "4Gi", more: "6Gi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, 1)
			s.create(s.class("disk").Provisioner(tc.driver).Obj())
			if tc.room != "" {
				s.create(s.capacity("room", "disk", tc.room, nil))
			}
			s.create(s.claim("c", "disk").Size("5Gi").Obj())
			s.create(s.pod("web", "c").Obj())
			if tc.more != "" {
				s.unschedulable("web", noRoom)
				s.untouched("c")
				s.create(s.capacity("more", "disk", tc.more, nil))
			}
			s.bound("web")
			s.provisioned("c", s.nodes[0])
			s.settled()
		})
	}
}

// testScoring proves that the scheduler's choice of the node with the largest
// volumes is kept: the pod is bound there, with volumes of that node.
func testScoring(t *testing.T, r registration) {
	const ssd, hdd = "ssd", "hdd"
	type disks [2]string // classes
	tests := map[string]struct {
		classes disks
		claims  []string // their sizes
		zonal   bool
	}{
		"one claim":                        {disks{ssd, ssd}, []string{"20Gi"}, false},
		"two claims":                       {disks{ssd, ssd}, []string{"80Gi", "80Gi"}, false},
		"two claims of two classes":        {disks{ssd, hdd}, []string{"80Gi", "80Gi"}, false},
		"two claims of two classes, zonal": {disks{ssd, hdd}, []string{"80Gi", "80Gi"}, true},
	}
	sizes := [3][2]string{{"100Gi", "100Gi"}, {"200Gi", "200Gi"}, {"100Gi", "50Gi"}}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, r, 0)
			s.scoredNodes(len(sizes))
			s.create(s.class(ssd).Obj(), s.class(hdd).Obj())
			// The best node first: a scheduler that knows of others knows of it.
			for _, node := range []int{1, 0, 2} {
				for i, size := range sizes[node] {
					b := s.volume(s.diskName(node, i), tc.classes[i], node).Capacity(size)
					if tc.zonal {
						b.InZone(s.zone(node))
					}
					s.create(b.Obj())
				}
				s.volumesAre(v1.VolumeAvailable, s.diskName(node, 0), s.diskName(node, 1))
			}
			var claims []string
			for i, size := range tc.claims {
				claims = append(claims, []string{"c0", "c1"}[i])
				s.create(s.claim(claims[i], tc.classes[i]).Size(size).Obj())
			}
			s.create(s.pod("web", claims...).Obj())
			if node := s.bound("web")[0].Spec.NodeName; node != s.nodes[1] {
				t.Errorf("the pod is on node %s, want %s, which has the largest volumes", node, s.nodes[1])
			}
			s.claimsAre(v1.ClaimBound, claims...)
			s.settled()
		})
	}
}

// scoredNodes makes nodes, each in a zone of its own.
func (s *scene) scoredNodes(n int) {
	s.t.Helper()
	for i := range n {
		s.nodes = append(s.nodes, s.name([]string{"a", "b", "c"}[i]))
		s.create(s.node(i).Zone(s.zone(i)).Obj())
	}
}

func (s *scene) zone(node int) string { return s.nodes[node] + "-zone" }

func (s *scene) diskName(node, i int) string {
	return []string{"a", "b", "c"}[node] + []string{"0", "1"}[i]
}

// testScoringOfDrivers proves the same for volumes that are to be made: each
// pod goes where the driver of its own claim has reported the most room, and
// a driver that does not report is not kept from any node.
func testScoringOfDrivers(t *testing.T, r registration) {
	zone := func(s *scene, node int) map[string]string {
		return map[string]string{v1.LabelTopologyZone: s.zone(node)}
	}
	check := func(s *scene, want map[string]int) {
		for pod, node := range want {
			if got := s.bound(pod)[0].Spec.NodeName; got != s.nodes[node] {
				s.t.Errorf("pod %s is on node %s, want %s", pod, got, s.nodes[node])
			}
			s.provisioned(pod, s.nodes[node])
		}
		s.settled()
	}
	t.Run("two that report", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, r, 0)
		s.scoredNodes(2)
		s.create(s.class("one").Provisioner(driverOne).Obj(), s.class("two").Provisioner(driverTwo).Obj())
		// The most room first: a scheduler that knows of less knows of it.
		s.create(s.capacity("one-a", "one", "12Gi", zone(s, 0)))
		s.create(s.capacity("two-b", "two", "12Gi", zone(s, 1)))
		s.create(s.capacity("one-b", "one", "6Gi", zone(s, 1)), s.capacity("two-a", "two", "6Gi", zone(s, 0)))
		s.create(s.claim("one", "one").Size("5Gi").Obj(), s.claim("two", "two").Size("5Gi").Obj())
		s.create(s.pod("one", "one").Obj(), s.pod("two", "two").Obj())
		check(s, map[string]int{"one": 0, "two": 1})
	})
	t.Run("one that reports and one that does not", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, r, 0)
		s.scoredNodes(2)
		s.create(s.class("one").Provisioner(driverOne).Obj(), s.class("silent").Provisioner(driverSilent).Obj())
		s.create(s.capacity("one-a", "one", "12Gi", zone(s, 0)))
		s.create(s.claim("one", "one").Size("5Gi").Obj(), s.claim("silent", "silent").Size("5Gi").Obj())
		s.create(s.pod("one", "one").Obj(), s.pod("silent", "silent").NodeSelector(v1.LabelTopologyZone, s.zone(1)).Obj())
		check(s, map[string]int{"one": 0, "silent": 1})
	})
}
