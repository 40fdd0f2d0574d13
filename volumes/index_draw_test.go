package volumes

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/testkit"
)

// What the random tests of the index draw: few names and values, so that they
// meet, and every form that an affinity may have, also those that make no sense.

func drawLabels(t *rapid.T) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, map[string]string{
		v1.LabelHostname:     rapid.SampledFrom([]string{"h1", "h2", "h3"}).Draw(t, "host"),
		v1.LabelTopologyZone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
	})
	if rank := rapid.SampledFrom([]string{"", "1", "5", "x"}).Draw(t, "rank"); rank != "" {
		labels["rank"] = rank
	}
	if rapid.Bool().Draw(t, "disk") {
		labels["disk"] = ""
	}
	return labels
}

func drawAffinity(t *rapid.T) *v1.VolumeNodeAffinity {
	one := func(requirements ...v1.NodeSelectorRequirement) *v1.VolumeNodeAffinity {
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: requirements}}}}
	}
	switch rapid.IntRange(0, 11).Draw(t, "affinity") {
	case 0, 1:
		return nil
	case 2:
		return &v1.VolumeNodeAffinity{}
	case 3, 4: // what provisioners write
		return one(v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{rapid.SampledFrom([]string{"h1", "h2", "h3"}).Draw(t, "host")}})
	case 5, 6:
		return one(drawRequirement(t, v1.NodeSelectorOpIn))
	case 7, 8:
		return one(drawRequirement(t, v1.NodeSelectorOpIn), drawRequirement(t, drawOperator(t)))
	}
	required := &v1.NodeSelector{}
	for range rapid.IntRange(0, 3).Draw(t, "terms") {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, drawTerm(t))
	}
	return &v1.VolumeNodeAffinity{Required: required}
}

func drawOperator(t *rapid.T) v1.NodeSelectorOperator {
	return rapid.SampledFrom([]v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists,
		v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt, "Near",
	}).Draw(t, "operator")
}

func drawRequirement(t *rapid.T, operator v1.NodeSelectorOperator) v1.NodeSelectorRequirement {
	values := map[string][]string{
		v1.LabelHostname: {"h1", "h2", "h3"}, v1.LabelTopologyZone: {"a", "b", "no label"}, "rank": {"1", "3", "x"}, "disk": {"", "ssd"},
	}
	r := v1.NodeSelectorRequirement{
		Key: rapid.SampledFrom([]string{v1.LabelHostname, v1.LabelTopologyZone, "rank", "disk"}).Draw(t, "key"), Operator: operator,
	}
	wants := 1
	switch operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		wants = rapid.SampledFrom([]int{1, 1, 2, 3, 0}).Draw(t, "values")
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		wants = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "values")
	}
	for range wants {
		r.Values = append(r.Values, rapid.SampledFrom(values[r.Key]).Draw(t, "value"))
	}
	return r
}

func drawTerm(t *rapid.T) (term v1.NodeSelectorTerm) {
	for range rapid.IntRange(0, 3).Draw(t, "expressions") {
		term.MatchExpressions = append(term.MatchExpressions, drawRequirement(t, drawOperator(t)))
	}
	if fields := rapid.IntRange(-6, 2).Draw(t, "fields"); fields > 0 {
		term.MatchFields = []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"n1", "n2"}[:fields]}}
	}
	return term
}

var (
	drawnSizes   = []string{"1Gi", "1024Mi", "2Gi", "5Gi", "500m"}
	drawnClasses = []string{"local", "local", "fast"}
)

func drawPV(t *rapid.T, name string, version int) *v1.PersistentVolume {
	pv := testkit.Volume(name).
		Class(rapid.SampledFrom(drawnClasses).Draw(t, "class")).
		Size(rapid.SampledFrom(drawnSizes).Draw(t, "size")).PersistentVolume
	pv.ResourceVersion = fmt.Sprint(version)
	pv.Spec.NodeAffinity = drawAffinity(t)
	pv.Labels = map[string]string{"tier": rapid.SampledFrom([]string{"hot", "cold"}).Draw(t, "tier")}
	claim := testkit.Claim(fmt.Sprint("c-", rapid.IntRange(0, 3).Draw(t, "claim")))
	switch rapid.IntRange(0, 19).Draw(t, "state") {
	case 0:
		testkit.VolumeBuilder{PersistentVolume: pv}.Terminating()
	case 1:
		pv.Status.Phase = v1.VolumePending
	case 2:
		testkit.VolumeBuilder{PersistentVolume: pv}.PreBound(claim.Name)
	case 3:
		testkit.VolumeBuilder{PersistentVolume: pv}.ClaimedBy(claim)
	case 4:
		testkit.VolumeBuilder{PersistentVolume: pv}.ClaimedByUID(claim.Name, "old").Phase(v1.VolumeReleased)
	case 5:
		pv.Annotations = map[string]string{v1.BetaStorageClassAnnotation: "fast"}
	case 6:
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	case 7:
		block := v1.PersistentVolumeBlock
		pv.Spec.VolumeMode = &block
	case 8:
		gold := "gold"
		pv.Spec.VolumeAttributesClassName = &gold
	case 9:
		pv.Spec.Capacity = nil
	}
	return pv
}

func drawPVC(t *rapid.T, name string) *v1.PersistentVolumeClaim {
	claim := testkit.Claim(name).
		Class(rapid.SampledFrom(drawnClasses).Draw(t, "class")).
		Size(rapid.SampledFrom(drawnSizes).Draw(t, "size")).PersistentVolumeClaim
	switch rapid.IntRange(0, 11).Draw(t, "asks") {
	case 0, 1:
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "hot"}}
	case 2:
		claim.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Near"}}}
	case 3:
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, v1.ReadOnlyMany)
	case 4:
		block := v1.PersistentVolumeBlock
		claim.Spec.VolumeMode = &block
	case 5:
		gold := "gold"
		claim.Spec.VolumeAttributesClassName = &gold
	case 6:
		claim.Spec.Resources.Requests = nil
	}
	return claim
}

func drawCapacity(t *rapid.T, name string) *storagev1.CSIStorageCapacity {
	reported := testkit.Capacity(name, rapid.SampledFrom(drawnClasses).Draw(t, "class"), rapid.SampledFrom(drawnSizes).Draw(t, "size"))
	reported.NodeTopology = nil
	term := drawTerm(t)
	switch rapid.IntRange(0, 5).Draw(t, "topology") {
	case 0:
		return reported.CSIStorageCapacity
	case 1:
		reported.NodeTopology = &metav1.LabelSelector{}
	case 2:
		reported.Largest(rapid.SampledFrom(drawnSizes).Draw(t, "largest"))
		fallthrough
	case 3:
		reported.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{
			v1.LabelTopologyZone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
			v1.LabelHostname:     rapid.SampledFrom([]string{"h1", "h2", "h3"}).Draw(t, "host"),
		}}
	default:
		reported.NodeTopology = &metav1.LabelSelector{}
		for _, r := range term.MatchExpressions {
			reported.NodeTopology.MatchExpressions = append(reported.NodeTopology.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
			})
		}
	}
	return reported.CSIStorageCapacity
}
