package e2e_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/test/build"
)

// Volumes of in-tree plugins that have moved to CSI: the affinity is written
// with the plugin's labels, the node has the driver's. A node that says, in its
// CSINode, that it has migrated the plugin is judged by the driver's labels.
func TestVolumesOfMigratedPlugins(t *testing.T) {
	t.Parallel()
	const driverZone = "topology.ebs.csi.aws.com/zone"
	disk := v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	tests := map[string]struct {
		node    map[string]string
		csiNode []string // migrated plugins; nil for no CSINode
		fits    bool
	}{
		"migrated, the driver's label fits":                 {map[string]string{driverZone: "a"}, []string{"kubernetes.io/aws-ebs"}, true},
		"migrated, the driver's label is another":           {map[string]string{driverZone: "b", zone: "a"}, []string{"kubernetes.io/aws-ebs"}, false},
		"migrated among others":                             {map[string]string{driverZone: "a"}, []string{"kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"}, true},
		"another plugin is migrated, the old label decides": {map[string]string{driverZone: "a"}, []string{"kubernetes.io/gce-pd"}, false},
		"no CSINode, the old label decides":                 {map[string]string{driverZone: "a"}, nil, false},
		"no CSINode, the old label fits":                    {map[string]string{zone: "a"}, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", tc.node)
			if tc.csiNode != nil {
				f.csiNode(node, tc.csiNode...)
			}
			class := f.class(newClass("ebs", build.NoProvisioner, immediate))
			f.volume(newVolume("disk", class, "", func(pv *v1.PersistentVolume) {
				pv.Spec.PersistentVolumeSource = disk
				pv.Spec.NodeAffinity.Required.NodeSelectorTerms = []v1.NodeSelectorTerm{build.In(zone, "a")}
			}))
			f.claim(newClaim("data", class))
			f.awaitBound("data")
			pod := f.pod(newPod("web", nobody, "data"))
			if !tc.fits {
				f.refuses(pod, node, "NodeConflict", "claim "+f.ns+"/data", f.name("disk"), node)
				return
			}
			// The watch may show the CSINode a moment after the bind call.
			f.eventually("the pod is bound", func() bool {
				text := f.bind(pod, node)
				if text != "" && (tc.csiNode == nil || !strings.HasPrefix(text, "NodeConflict: ")) {
					t.Fatal(text)
				}
				return text == ""
			})
			f.checkBound(pod, node)
		})
	}
}
