package volumes

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

// reachable returns nil if the volume can be used from the node. A volume of
// an in-tree plugin that the node has migrated to CSI is judged as the CSI
// volume that it is there. Only labels count, as in kube-scheduler: the
// node's name is not looked at.
func reachable(pv *v1.PersistentVolume, node *v1.Node, csiNode *storagev1.CSINode) error {
	translator := csitranslation.New()
	if translator.IsPVMigratable(pv) {
		plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil)
		if err != nil {
			return fmt.Errorf("naming the plugin of volume %s: %w", pv.Name, err)
		}
		if migrated(plugin, csiNode) {
			if pv, err = translator.TranslateInTreePVToCSI(klog.Background(), pv); err != nil {
				return fmt.Errorf("translating volume to CSI: %w", err)
			}
		}
	}
	return volume.CheckNodeAffinity(pv, node.Labels)
}

// migrated tells whether the plugin's migration is on by default and the node
// says that it takes part. Source: volumebinding/binder.go of kube-scheduler.
func migrated(plugin string, csiNode *storagev1.CSINode) bool {
	switch plugin {
	case csiplugins.AWSEBSInTreePluginName, csiplugins.GCEPDInTreePluginName, csiplugins.AzureDiskInTreePluginName,
		csiplugins.CinderInTreePluginName, csiplugins.PortworxVolumePluginName:
	default:
		return false
	}
	if csiNode == nil {
		return false
	}
	return slices.Contains(strings.Split(csiNode.Annotations[v1.MigratedPluginsAnnotationKey], ","), plugin)
}

// topologyAllowed tells whether the class may provision for the node: any
// term with all its labels. No terms allow every node; an empty term none.
func topologyAllowed(terms []v1.TopologySelectorTerm, node *v1.Node) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(term v1.TopologySelectorTerm) bool {
		if len(term.MatchLabelExpressions) == 0 {
			return false
		}
		for _, want := range term.MatchLabelExpressions {
			value, ok := node.Labels[want.Key]
			if !ok || !slices.Contains(want.Values, value) {
				return false
			}
		}
		return true
	})
}

// checksCapacity tells whether the driver asks for capacity checks.
func (c *ClaimFacts) checksCapacity() bool {
	return c.Driver != nil && c.Driver.Spec.StorageCapacity != nil && *c.Driver.Spec.StorageCapacity
}

// capacitySuffices tells whether the driver reports room for the claim where
// the node can reach it. Drivers that do not ask for the check always pass, and
// so does a claim without a size.
func capacitySuffices(facts *ClaimFacts) bool {
	_, sized := facts.Claim.Spec.Resources.Requests[v1.ResourceStorage]
	return !facts.checksCapacity() || facts.Room != nil || !sized
}
