package volumes

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// detail says it of this volume.
func (j *volumeJudge) detail(pv *v1.PersistentVolume, why Refusal) string {
	var text string
	switch why {
	case RefusedClass:
		text = "its class is " + orNone(volume.GetPersistentVolumeClass(pv)) + ", the claim's " + orNone(j.class)
	case RefusedNode:
		text = "it is for nodes with " + AffinityText(pv)
	case RefusedClaimed:
		text = j.claimant(pv.Spec.ClaimRef)
	case RefusedPhase:
		text = "it is " + orNone(string(pv.Status.Phase))
	case RefusedMode:
		text = "it is " + modeOf(pv.Spec.VolumeMode) + ", the claim asks for " + modeOf(j.Claim.Spec.VolumeMode)
	case RefusedAccess:
		text = fmt.Sprintf("it has %s, the claim asks for %s", accessModes(pv.Spec.AccessModes), accessModes(j.Claim.Spec.AccessModes))
	case RefusedAttributes:
		text = "it has " + orNone(attributesOf(pv.Spec.VolumeAttributesClassName)) + ", the claim asks for " + orNone(attributesOf(j.Claim.Spec.VolumeAttributesClassName))
	case RefusedSize:
		wants := j.Claim.Spec.Resources.Requests[v1.ResourceStorage]
		text = fmt.Sprintf("it has %s, the claim asks for %s", pv.Spec.Capacity.Storage(), wants.String())
	case RefusedTaken:
		text = "claim " + j.taken[pv.Name]
	default:
		return string(why)
	}
	return string(why) + ": " + text
}

// claimant names the claim of the reference, which is not the judge's.
func (j *volumeJudge) claimant(ref *v1.ObjectReference) string {
	name := "claim " + ref.Namespace + "/" + ref.Name
	if ref.Namespace == j.Claim.Namespace && ref.Name == j.Claim.Name {
		return "an earlier " + name
	}
	return name
}

// AffinityText says which nodes can reach the volume, as in
// "kubernetes.io/hostname in (node-3)".
func AffinityText(pv *v1.PersistentVolume) string {
	required := requiredAffinity(pv)
	if required == nil {
		return "any labels"
	}
	var terms []string
	for i := range required.NodeSelectorTerms {
		var all []string
		for _, r := range slices.Concat(required.NodeSelectorTerms[i].MatchExpressions, required.NodeSelectorTerms[i].MatchFields) {
			text := r.Key + " " + strings.ToLower(string(r.Operator))
			if len(r.Values) > 0 {
				text += " (" + strings.Join(r.Values, ", ") + ")"
			}
			all = append(all, text)
		}
		if len(all) > 0 {
			terms = append(terms, strings.Join(all, " and "))
		}
	}
	if len(terms) == 0 {
		return "labels that no node can have"
	}
	return strings.Join(terms, ", or ")
}

func attributesOf(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

func modeOf(mode *v1.PersistentVolumeMode) string {
	if mode == nil {
		return string(v1.PersistentVolumeFilesystem)
	}
	return string(*mode)
}

func accessModes(modes []v1.PersistentVolumeAccessMode) string {
	texts := make([]string, 0, len(modes))
	for _, mode := range modes {
		texts = append(texts, string(mode))
	}
	return orNone(strings.Join(texts, ", "))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
