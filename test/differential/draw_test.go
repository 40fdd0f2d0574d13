package differential

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"pgregory.net/rapid"
)

// Small domains, so that things meet: names that other objects use, sizes that
// are equal in other words, labels that are almost right.
const (
	csiDriver   = "csi.example.com"
	otherDriver = "other.example.com"

	labelDisks = "example.com/disks"
	labelSlots = "example.com/slots"
	labelTier  = "tier"

	maxNodes   = 3
	maxVolumes = 6
	maxClaims  = 4
)

// one draws one of the values. Those given first are what a failing state
// shrinks to; give one twice to see it more often.
func one[V any](t *rapid.T, label string, values ...V) V {
	return values[rapid.IntRange(0, len(values)-1).Draw(t, label)]
}

// oneIn is true about once in n times. Rapid draws the smallest and the
// largest number too often, so it is one in the middle that counts.
func oneIn(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n/2
}

func drawState(t *rapid.T) *state {
	s := &state{}
	for i := range rapid.IntRange(1, maxNodes).Draw(t, "nodes") {
		drawNode(t, s, i)
	}
	for _, name := range []string{"local", "fast", "zoned", "now"} {
		drawClass(t, s, name)
	}
	drawDrivers(t, s)
	for i := range rapid.IntRange(0, 3).Draw(t, "capacities") {
		s.capacities = append(s.capacities, drawCapacity(t, fmt.Sprintf("room-%d", i)))
	}
	for i := range one(t, "volumes", 0, 1, 2, 3, 4, 5, 5, maxVolumes, maxVolumes) {
		s.volumes = append(s.volumes, drawVolume(t, fmt.Sprintf("pv-%d", i)))
	}
	drawPod(t, s)
	if oneIn(t, 4, "crowd") {
		s.crowd()
	}
	return s
}

// crowd makes all claims of the state compete for all its volumes. What makes
// either of them special is dropped, but for size, labels, access modes and
// affinity: so it is matching that decides, of several claims at once.
func (s *state) crowd() {
	for _, pv := range s.volumes {
		pv.Annotations, pv.DeletionTimestamp = nil, nil
		pv.Spec.StorageClassName, pv.Spec.ClaimRef, pv.Spec.VolumeMode, pv.Spec.VolumeAttributesClassName = "local", nil, nil, nil
		pv.Status.Phase = v1.VolumeAvailable
	}
	for _, claim := range s.claims {
		claim.Annotations, claim.DeletionTimestamp = map[string]string{}, nil
		claim.Spec.StorageClassName, claim.Spec.VolumeName, claim.Spec.VolumeMode, claim.Spec.VolumeAttributesClassName = new("local"), "", nil, nil
		claim.Status.Phase = v1.ClaimPending
	}
}

// drawNode adds a node, and its CSINode unless that is missing. The hostname
// label is mostly the short name, and sometimes another node's.
func drawNode(t *rapid.T, s *state, i int) {
	short := fmt.Sprintf("n%d", i)
	node := &v1.Node{ObjectMeta: named(short + ".example")}
	node.Labels = map[string]string{}
	for key, value := range map[string]string{
		v1.LabelHostname:                one(t, "hostname", short, short, short, short, node.Name, "n1", ""),
		v1.LabelTopologyZone:            one(t, "zone", "zone-a", "zone-a", "zone-b", ""),
		labelDisks:                      one(t, "disks", "", "ssd", "hdd"),
		labelSlots:                      one(t, "slots", "", "2", "8", "many"),
		csiplugins.GCEPDTopologyKey:     one(t, "gce zone", "", "zone-a", "zone-b"),
		csiplugins.AWSEBSTopologyKey:    one(t, "aws zone", "", "zone-a", "zone-b"),
		csiplugins.AzureDiskTopologyKey: one(t, "azure zone", "", "zone-a", "zone-b"),
		csiplugins.CinderTopologyKey:    one(t, "cinder zone", "", "zone-a", "zone-b"),
	} {
		if value != "" {
			node.Labels[key] = value
		}
	}
	s.nodes = append(s.nodes, node)

	if oneIn(t, 4, "no csinode") {
		return
	}
	csiNode := &storagev1.CSINode{ObjectMeta: named(node.Name)}
	if oneIn(t, 2, "drivers") {
		csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: csiDriver, NodeID: node.Name, TopologyKeys: []string{v1.LabelTopologyZone}}}
	}
	var migrated []string
	for _, plugin := range []string{
		csiplugins.GCEPDInTreePluginName, csiplugins.AWSEBSInTreePluginName, csiplugins.AzureDiskInTreePluginName, csiplugins.CinderInTreePluginName,
	} {
		if oneIn(t, 2, "migrated") {
			migrated = append(migrated, plugin)
		}
	}
	if migrated != nil || oneIn(t, 2, "empty annotation") {
		csiNode.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(migrated, ",")}
	}
	s.csiNodes = append(s.csiNodes, csiNode)
}

func drawClass(t *rapid.T, s *state, name string) {
	if oneIn(t, 32, "class missing") {
		return
	}
	mode, provisioner := storagev1.VolumeBindingWaitForFirstConsumer, volume.NotSupportedProvisioner
	switch name {
	case "now":
		mode = storagev1.VolumeBindingImmediate
		provisioner = one(t, "provisioner", csiDriver, volume.NotSupportedProvisioner)
	case "fast", "zoned":
		provisioner = one(t, "provisioner", csiDriver, csiDriver, csiDriver, otherDriver, "")
	}
	class := &storagev1.StorageClass{ObjectMeta: named(name), Provisioner: provisioner, VolumeBindingMode: &mode}
	terms := 0
	if name == "zoned" {
		terms = rapid.IntRange(0, 2).Draw(t, "allowedTopologies")
	}
	for range terms {
		class.AllowedTopologies = append(class.AllowedTopologies, drawTopologyTerm(t))
	}
	s.classes = append(s.classes, class)
}

func drawTopologyTerm(t *rapid.T) v1.TopologySelectorTerm {
	term := v1.TopologySelectorTerm{}
	for range one(t, "labels of the term", 1, 1, 1, 2, 2, 0) {
		term.MatchLabelExpressions = append(term.MatchLabelExpressions, one(
			t, "label of the term",
			v1.TopologySelectorLabelRequirement{Key: v1.LabelTopologyZone, Values: []string{"zone-a"}},
			v1.TopologySelectorLabelRequirement{Key: v1.LabelTopologyZone, Values: []string{"zone-b", "zone-c"}},
			v1.TopologySelectorLabelRequirement{Key: labelDisks, Values: []string{"ssd"}},
			v1.TopologySelectorLabelRequirement{Key: v1.LabelHostname, Values: []string{"n0", "n1.example"}},
		))
	}
	return term
}

func drawDrivers(t *rapid.T, s *state) {
	for _, name := range []string{csiDriver, otherDriver} {
		driver := &storagev1.CSIDriver{ObjectMeta: named(name)}
		switch one(t, "driver", "checks capacity", "checks capacity", "does not", "unset", "missing") {
		case "checks capacity":
			driver.Spec.StorageCapacity = new(true)
		case "does not":
			driver.Spec.StorageCapacity = new(false)
		case "missing":
			continue
		}
		s.drivers = append(s.drivers, driver)
	}
}

func drawCapacity(t *rapid.T, name string) *storagev1.CSIStorageCapacity {
	room := &storagev1.CSIStorageCapacity{ObjectMeta: named(name), StorageClassName: one(t, "class of the room", "fast", "zoned", "fast", "zoned", "local")}
	room.Namespace = "drivers"
	room.NodeTopology = one(
		t, "topology of the room",
		&metav1.LabelSelector{},
		&metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: "zone-a"}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelDisks, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"hdd"}}}},
		&metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: "n1"}},
		nil,
	)
	room.Capacity = drawRoom(t, "room", 6)
	room.MaximumVolumeSize = drawRoom(t, "largest", 2)
	return room
}

// drawRoom draws a quantity that is missing once in so many times.
func drawRoom(t *rapid.T, label string, missing int) *resource.Quantity {
	if oneIn(t, missing, "no "+label) {
		return nil
	}
	return new(resource.MustParse(one(t, label, "100Gi", "10Gi", "5Gi", "5000M", "1Gi", "0")))
}
