package differential

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"
)

// deleted is the deletion time of terminating objects.
var deleted = metav1.Unix(1, 0)

func drawVolume(t *rapid.T, name string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: named(name)}
	pv.Spec.StorageClassName = one(t, "class of the volume", "local", "local", "local", "local", "local", "local", "local", "fast", "fast", "zoned", "now", "")
	if oneIn(t, 12, "class by annotation") {
		pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: one(t, "annotated class", "local", "fast", "")}
	}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(one(
		t, "capacity", "10Gi", "10Gi", "20Gi", "100Gi", "5Gi", "10240Mi", "10737418241", "5368709120", "1.5Gi", "5G", "1e10", "5000000000500m",
	))}
	pv.Spec.AccessModes = one(
		t, "modes of the volume", modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce, v1.ReadOnlyMany),
		modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce, v1.ReadWriteMany), modes(v1.ReadWriteMany), modes(v1.ReadWriteOncePod),
	)
	pv.Spec.VolumeMode = drawVolumeMode(t)
	pv.Labels = one(t, "labels of the volume", nil, nil, map[string]string{labelTier: "gold"}, map[string]string{labelTier: "silver"})
	pv.Spec.VolumeAttributesClassName = drawAttributes(t)
	drawSource(t, pv)
	pv.Spec.NodeAffinity = drawAffinity(t)
	pv.Status.Phase = v1.VolumeAvailable
	if oneIn(t, 8, "another phase") {
		pv.Status.Phase = one(t, "phase of the volume", v1.VolumePending, v1.PersistentVolumePhase(""), v1.VolumeBound, v1.VolumeReleased, v1.VolumeFailed)
	}
	if oneIn(t, 4, "claimed") {
		drawClaimRef(t, pv)
	}
	if oneIn(t, 16, "volume terminates") {
		pv.DeletionTimestamp = &deleted
	}
	return pv
}

// drawClaimRef pre-binds the volume, to a claim that may or may not be one of
// the pod's.
func drawClaimRef(t *rapid.T, pv *v1.PersistentVolume) {
	name := one(t, "claimRef", append(claimNames(), "c0", "c0", "c1")...) // most pods have these
	preBind(pv, name, "")
	pv.Spec.ClaimRef.Namespace = one(t, "namespace of claimRef", namespace, namespace, namespace, otherNamespace)
	switch one(t, "uid in claimRef", "none", "none", "right", "right", "stale") {
	case "right":
		pv.Spec.ClaimRef.UID = uidOf(name)
		pv.Status.Phase = one(t, "phase of the claimed", v1.VolumeBound, v1.VolumeAvailable, v1.VolumeReleased)
	case "stale":
		pv.Spec.ClaimRef.UID = "stale"
		pv.Status.Phase = one(t, "phase of the stale", v1.VolumeReleased, v1.VolumeAvailable, v1.VolumeFailed)
	}
}

// drawSource makes the volume a local one, or one of an in-tree plugin that
// has moved to CSI; seldom one that cannot be translated.
func drawSource(t *rapid.T, pv *v1.PersistentVolume) {
	source := &pv.Spec.PersistentVolumeSource
	switch one(t, "source", "local", "local", "csi", "gce", "aws", "azure", "cinder", "aws") {
	case "local":
		source.Local = &v1.LocalVolumeSource{Path: "/mnt/" + pv.Name}
	case "csi":
		source.CSI = &v1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: pv.Name}
	case "gce":
		source.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: pv.Name}
	case "aws":
		id := one(t, "aws id", "aws://zone-a/vol-1", "vol-1", "aws://half/broken/id", "aws://half/broken/id")
		source.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id}
	case "azure":
		source.AzureDisk = &v1.AzureDiskVolumeSource{DiskName: pv.Name, DataDiskURI: "/subscriptions/s/disks/" + pv.Name}
	case "cinder":
		source.Cinder = &v1.CinderPersistentVolumeSource{VolumeID: pv.Name}
	}
	if source.Local == nil && oneIn(t, 4, "zone label on the volume") {
		pv.Labels = map[string]string{one(t, "zone key on the volume", v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone): "zone-a"}
	}
}

func drawAffinity(t *rapid.T) *v1.VolumeNodeAffinity {
	if oneIn(t, 2, "no affinity") {
		return one(t, "kind of no affinity", nil, nil, nil, nil, &v1.VolumeNodeAffinity{})
	}
	required := &v1.NodeSelector{}
	for range one(t, "terms", 1, 1, 1, 1, 2, 2, 0) {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, drawTerm(t))
	}
	return &v1.VolumeNodeAffinity{Required: required}
}

// drawTerm draws a term of a volume's node affinity: mostly one label, and
// sometimes two, or none, or the node's name.
func drawTerm(t *rapid.T) v1.NodeSelectorTerm {
	in, notIn := v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn
	term := v1.NodeSelectorTerm{}
	for range one(t, "labels of the affinity", 1, 1, 1, 1, 1, 2, 0) {
		term.MatchExpressions = append(term.MatchExpressions, one(
			t, "label of the affinity",
			v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: in, Values: []string{"n0"}},
			v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: in, Values: []string{"n0", "n1"}},
			v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: in, Values: []string{"n0.example"}},
			v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: in, Values: []string{"zone-a"}},
			v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: in, Values: []string{"zone-a", "zone-b"}},
			v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: notIn, Values: []string{"zone-b"}},
			v1.NodeSelectorRequirement{Key: v1.LabelFailureDomainBetaZone, Operator: in, Values: []string{"zone-a"}},
			v1.NodeSelectorRequirement{Key: labelDisks, Operator: notIn, Values: []string{"hdd"}},
			v1.NodeSelectorRequirement{Key: labelDisks, Operator: v1.NodeSelectorOpExists},
			v1.NodeSelectorRequirement{Key: labelDisks, Operator: v1.NodeSelectorOpDoesNotExist},
			v1.NodeSelectorRequirement{Key: labelSlots, Operator: v1.NodeSelectorOpGt, Values: []string{"4"}},
			v1.NodeSelectorRequirement{Key: labelSlots, Operator: v1.NodeSelectorOpLt, Values: []string{"4"}},
		))
	}
	if oneIn(t, 8, "matchFields") {
		term.MatchFields = []v1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: one(t, "operator on the name", in, notIn), Values: []string{one(t, "name in matchFields", "n0.example", "n1.example", "")},
		}}
	}
	return term
}

// preBind sets the volume's claimRef.
func preBind(pv *v1.PersistentVolume, claim string, uid types.UID) {
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim, UID: uid}
}

// complete is the claim's side of a finished binding.
func complete(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	claim.Spec.VolumeName, claim.Status.Phase = pv.Name, v1.ClaimBound
	claim.Annotations[volume.AnnBindCompleted] = "yes"
}

func onHost(pv *v1.PersistentVolume, hostname string) {
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{hostname}}},
	}}}}
}

func modes(modes ...v1.PersistentVolumeAccessMode) []v1.PersistentVolumeAccessMode { return modes }

func drawVolumeMode(t *rapid.T) *v1.PersistentVolumeMode {
	if oneIn(t, 12, "block") {
		return new(v1.PersistentVolumeBlock)
	}
	return one(t, "volumeMode", nil, nil, new(v1.PersistentVolumeFilesystem))
}

func drawAttributes(t *rapid.T) *string {
	if oneIn(t, 12, "attributes") {
		return new("turbo")
	}
	return one(t, "attributes class", nil, nil, nil, new(""))
}
