package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// String prints the state as people would write it down: a line an object, and
// of each object what a decision can rest on.
func (s *state) String() string {
	lines := []string{describePod(s.pod)}
	for _, claim := range s.claims {
		lines = append(lines, describeClaim(claim))
	}
	for _, pv := range s.volumes {
		lines = append(lines, describeVolume(pv))
	}
	for _, node := range s.nodes {
		lines = append(lines, "node "+node.Name+" "+pairs(node.Labels))
	}
	for _, csiNode := range s.csiNodes {
		lines = append(lines, "csinode "+csiNode.Name+" migrated="+csiNode.Annotations[v1.MigratedPluginsAnnotationKey])
	}
	for _, class := range s.classes {
		lines = append(lines, describeClass(class))
	}
	for _, driver := range s.drivers {
		lines = append(lines, fmt.Sprintf("driver %s storageCapacity=%s", driver.Name, orNone(driver.Spec.StorageCapacity)))
	}
	for _, room := range s.capacities {
		lines = append(lines, fmt.Sprintf("room %s class=%s capacity=%s largest=%s nodes=%s",
			room.Name, room.StorageClassName, quantity(room.Capacity), quantity(room.MaximumVolumeSize), selector(room.NodeTopology)))
	}
	return strings.Join(lines, "\n")
}

// words joins those that are not empty.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(word string) bool { return word == "" }), " ")
}

// when returns the text if it is to be told.
func when(told bool, text string) string {
	if told {
		return text
	}
	return ""
}

func orNone[T any](value *T) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(*value)
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return "none"
	}
	return q.String()
}

func pairs(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return "{" + strings.Join(all, " ") + "}"
}

func selector(s *metav1.LabelSelector) string {
	switch {
	case s == nil:
		return "none"
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		return "all"
	}
	return metav1.FormatLabelSelector(s)
}

func describePod(pod *v1.Pod) string {
	var uses []string
	for _, m := range mentions(pod) {
		uses = append(uses, m.name+when(m.ephemeral, " (ephemeral)"))
	}
	return "pod " + pod.Name + " uses " + strings.Join(uses, ", ")
}

func describeClaim(claim *v1.PersistentVolumeClaim) string {
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	_, selected := claim.Annotations[volume.AnnSelectedNode]
	_, annotated := claim.Annotations[v1.BetaStorageClassAnnotation]
	var owners []string
	for _, owner := range claim.OwnerReferences {
		owners = append(owners, fmt.Sprintf("owner=%s (controller %s)", owner.UID, orNone(owner.Controller)))
	}
	return words(
		"claim "+claim.Namespace+"/"+claim.Name, "class="+orNone(claim.Spec.StorageClassName),
		when(annotated, "annotated="+claim.Annotations[v1.BetaStorageClassAnnotation]),
		size.String(), fmt.Sprint(claim.Spec.AccessModes), shape(claim.Spec.VolumeMode, claim.Spec.VolumeAttributesClassName),
		when(claim.Spec.Selector != nil, "selects="+selector(claim.Spec.Selector)),
		when(claim.Spec.VolumeName != "", "volume="+claim.Spec.VolumeName),
		when(metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted), "bind-completed"),
		when(selected, "selected-node="+claim.Annotations[volume.AnnSelectedNode]),
		strings.Join(owners, " "), "phase="+string(claim.Status.Phase), when(claim.DeletionTimestamp != nil, "terminating"),
	)
}

func describeVolume(pv *v1.PersistentVolume) string {
	size := pv.Spec.Capacity[v1.ResourceStorage]
	class, annotated := pv.Annotations[v1.BetaStorageClassAnnotation]
	claimed := ""
	if ref := pv.Spec.ClaimRef; ref != nil {
		claimed = fmt.Sprintf("claimed by %s/%s (uid %q)", ref.Namespace, ref.Name, ref.UID)
	}
	return words(
		"volume "+pv.Name, "class="+pv.Spec.StorageClassName, when(annotated, "annotated="+class),
		size.String(), fmt.Sprint(pv.Spec.AccessModes), shape(pv.Spec.VolumeMode, pv.Spec.VolumeAttributesClassName),
		source(&pv.Spec), when(len(pv.Labels) > 0, pairs(pv.Labels)), affinity(pv.Spec.NodeAffinity), claimed,
		"phase="+string(pv.Status.Phase), when(pv.DeletionTimestamp != nil, "terminating"),
	)
}

func shape(mode *v1.PersistentVolumeMode, attributes *string) string {
	return words(when(mode != nil, string(ptr.Deref(mode, ""))), when(attributes != nil, "attributes="+orNone(attributes)))
}

func source(spec *v1.PersistentVolumeSpec) string {
	switch {
	case spec.CSI != nil:
		return "csi"
	case spec.GCEPersistentDisk != nil:
		return "gce"
	case spec.AWSElasticBlockStore != nil:
		return "aws=" + spec.AWSElasticBlockStore.VolumeID
	case spec.AzureDisk != nil:
		return "azure"
	case spec.Cinder != nil:
		return "cinder"
	}
	return "local"
}

func affinity(a *v1.VolumeNodeAffinity) string {
	switch {
	case a == nil:
		return ""
	case a.Required == nil:
		return "on {}"
	}
	var terms []string
	for _, term := range a.Required.NodeSelectorTerms {
		var labels []string
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			labels = append(labels, fmt.Sprintf("%s %s %v", r.Key, r.Operator, r.Values))
		}
		terms = append(terms, "("+strings.Join(labels, " and ")+")")
	}
	return "on [" + strings.Join(terms, " or ") + "]"
}

func describeClass(class *storagev1.StorageClass) string {
	var within []string
	for _, term := range class.AllowedTopologies {
		var labels []string
		for _, r := range term.MatchLabelExpressions {
			labels = append(labels, fmt.Sprintf("%s in %v", r.Key, r.Values))
		}
		within = append(within, "("+strings.Join(labels, " and ")+")")
	}
	return words("class "+class.Name, string(*class.VolumeBindingMode), fmt.Sprintf("provisioner=%q", class.Provisioner),
		when(within != nil, "within ["+strings.Join(within, " or ")+"]"))
}
