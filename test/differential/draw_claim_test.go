package differential

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"
)

const (
	podName = "db"
	// ephemeralVolume is the pod's generic ephemeral volume, and ephemeralClaim
	// what its claim is called. A pod may name that claim directly as well.
	ephemeralVolume = "s"
	ephemeralClaim  = podName + "-" + ephemeralVolume
)

// claimNames are those of all claims.
func claimNames() []string { return []string{"c0", "c1", "c2", "c3", ephemeralClaim} }

// drawPod draws the pod and its claims. A claim that is bound already, or is
// about to be, mostly has a volume that agrees.
func drawPod(t *rapid.T, s *state) {
	s.pod = &v1.Pod{ObjectMeta: named(podName)}
	s.pod.Namespace = namespace
	for i := range one(t, "claims", 1, 1, 1, 1, 2, 2, 3, maxClaims) {
		drawMention(t, s, claimNames()[i])
	}
	if oneIn(t, 8, "ephemeral") {
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, v1.Volume{
			Name: ephemeralVolume, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}},
		})
		drawClaim(t, s, ephemeralClaim, true)
		if oneIn(t, 8, "used both ways") {
			s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource("again", ephemeralClaim))
		}
	}
	if oneIn(t, 16, "a volume without a claim") {
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, v1.Volume{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	}
}

func drawMention(t *rapid.T, s *state, name string) {
	s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource(name, name))
	if oneIn(t, 8, "twice") {
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource(name+"-again", name))
	}
	drawClaim(t, s, name, false)
	if oneIn(t, 16, "claim of that name elsewhere") {
		claim := s.claim(name)
		if claim == nil {
			return
		}
		claim = claim.DeepCopy()
		claim.Namespace, claim.UID = otherNamespace, uidOf(otherNamespace+"-"+name)
		s.claims = append(s.claims, claim)
	}
}

func claimSource(name, claim string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

func drawClaim(t *rapid.T, s *state, name string, ephemeral bool) {
	if oneIn(t, 64, "claim missing") || (ephemeral && oneIn(t, 8, "controller is late")) {
		return
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: named(name)}
	claim.Namespace, claim.Annotations = namespace, map[string]string{}
	claim.Spec.StorageClassName = one(t, "class of the claim", new("local"), new("local"), new("fast"), new("zoned"), new("local"), new("local"), new("fast"), new("zoned"))
	if oneIn(t, 12, "class without a future") {
		claim.Spec.StorageClassName = one(t, "class of the immediate claim", nil, new(""), new("now"), new("gone"))
	}
	if oneIn(t, 24, "class by annotation") {
		claim.Annotations[v1.BetaStorageClassAnnotation] = one(t, "annotated class", "local", "fast", "now", "")
	}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(one(
		t, "request", "1Gi", "5Gi", "10Gi", "5Gi", "2Gi", "5G", "5368709120", "5368709121", "5368709120500m", "1.5Gi", "20Gi", "1",
	))}
	claim.Spec.AccessModes = one(
		t, "modes of the claim", modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce),
		modes(v1.ReadWriteOnce, v1.ReadOnlyMany), modes(v1.ReadWriteMany),
	)
	claim.Spec.VolumeMode = drawVolumeMode(t)
	claim.Spec.VolumeAttributesClassName = drawAttributes(t)
	if oneIn(t, 8, "selector") {
		claim.Spec.Selector = drawSelector(t)
	}
	if ephemeral || oneIn(t, 24, "owner") {
		drawOwner(t, claim)
	}
	claim.Status.Phase = one(t, "phase of the claim", v1.ClaimPending, v1.ClaimPending, v1.PersistentVolumeClaimPhase(""))
	drawProgress(t, s, claim)
	if oneIn(t, 96, "lost") {
		claim.Status.Phase = v1.ClaimLost
	}
	if oneIn(t, 96, "claim terminates") {
		claim.DeletionTimestamp = &deleted
	}
	s.claims = append(s.claims, claim)
}

// drawProgress draws how far the claim has got: unbound, handed to the
// provisioner, half bound, bound.
func drawProgress(t *rapid.T, s *state, claim *v1.PersistentVolumeClaim) {
	switch one(
		t, "progress", "unbound", "unbound", "unbound", "unbound", "unbound", "unbound", "unbound", "unbound",
		"bound", "bound", "bound", "bound", "bound", "half bound", "selected here", "selected here", "selected elsewhere",
	) {
	case "selected here":
		claim.Annotations[volume.AnnSelectedNode] = s.nodes[0].Name
	case "selected elsewhere":
		claim.Annotations[volume.AnnSelectedNode] = one(t, "selected", "n1.example", "n0", "gone.example", "")
	case "bound":
		claim.Annotations[volume.AnnBindCompleted] = "yes"
		claim.Status.Phase = v1.ClaimBound
		drawVolumeName(t, s, claim)
	case "half bound":
		drawVolumeName(t, s, claim)
	}
	if oneIn(t, 48, "completed without a volume") {
		claim.Annotations[volume.AnnBindCompleted] = "yes"
	}
}

// drawVolumeName makes the claim name a volume: mostly one that is the
// claim's, seldom one that is not, or that does not exist.
func drawVolumeName(t *rapid.T, s *state, claim *v1.PersistentVolumeClaim) {
	claim.Spec.VolumeName = "pv-gone"
	if len(s.volumes) == 0 || oneIn(t, 12, "volume is gone") {
		return
	}
	pv := one(t, "volume of the claim", s.volumes...)
	claim.Spec.VolumeName = pv.Name
	if oneIn(t, 8, "volume is not the claim's") {
		return
	}
	preBind(pv, claim.Name, claim.UID)
	pv.Status.Phase = v1.VolumeBound
}

func drawSelector(t *rapid.T) *metav1.LabelSelector {
	return one(
		t, "selector of the claim",
		&metav1.LabelSelector{MatchLabels: map[string]string{labelTier: "gold"}},
		&metav1.LabelSelector{},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelTier, Operator: metav1.LabelSelectorOpIn, Values: []string{"gold", "silver"}}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelTier, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"gold"}}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelTier, Operator: metav1.LabelSelectorOpExists}}},
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelTier, Operator: metav1.LabelSelectorOpDoesNotExist}}},
	)
}

// drawOwner mostly makes the pod the claim's controller, as the ephemeral
// volume controller does.
func drawOwner(t *rapid.T, claim *v1.PersistentVolumeClaim) {
	uid := one(t, "owner of the claim", uidOf(podName), uidOf(podName), uidOf(podName), uidOf(podName), types.UID("older pod"), "")
	if uid == "" {
		return
	}
	claim.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: podName, UID: uid, Controller: new(!oneIn(t, 8, "owner is no controller"))},
	}
}
