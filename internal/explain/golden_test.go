package explain_test

import (
	"bytes"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/testkit"
)

// TestTexts compares whole texts, and some of them as JSON and YAML.
func TestTexts(t *testing.T) {
	data, other := testkit.Claim("data"), testkit.Claim("other")
	fast := testkit.Claim("data").Class("fast")
	failed := func(claim testkit.ClaimBuilder) runtime.Object {
		event := testkit.Event("failed", claim.PersistentVolumeClaim, v1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume: quota exceeded", now-12)
		event.FirstTimestamp, event.Count = metav1.Unix(now-250, 0), 5
		return event
	}
	tests := map[string]scene{
		"no-fitting-volume": {
			pod: unschedulable(db0("data", "logs"), "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."),
			objects: []runtime.Object{
				data, testkit.Claim("logs").Bound("pv-logs"), testkit.Volume("pv-logs").ClaimedBy(testkit.Claim("logs")),
				testkit.Volume("pv-small").Size("1Gi").OnHost("n1"), testkit.Volume("pv-small-2").Size("2Gi").OnHost("n1"),
				testkit.Volume("pv-other").OnHost("n1").ClaimedBy(other), testkit.Volume("pv-n2").OnHost("n2").Size("5Gi"),
				testkit.Volume("pv-fast").Class("fast").OnHost("n1"), testkit.Volume("pv-rox").OnHost("n1").Modes(v1.ReadOnlyMany),
			},
			options: explain.Options{Node: "n1"},
		},
		"provisioner-fails": {
			pod:     unschedulable(db0("data"), "0/3 nodes are available."),
			objects: []runtime.Object{fast, failed(fast)},
		},
		"selected-node-deleted": {
			pod:     db0("data"),
			objects: []runtime.Object{testkit.Claim("data").Class("fast").Selected("n9")},
		},
		"lost-claim": {
			pod:     db0("data"),
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-gone").Lost()},
			options: explain.Options{Node: "n1"},
		},
		"capacity-missing": {
			pod: db0("data"),
			objects: []runtime.Object{
				fast, testkit.Driver("csi.example.com", true),
				testkit.Capacity("c-a", "fast", "5Gi").For(v1.LabelTopologyZone, "a"),
			},
		},
		"all-well": {
			pod:     db0("data").OnNode("n1"),
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(data).OnHost("n1")},
		},
		"no-rights": {
			pod:     db0("data", "logs", "more"),
			objects: []runtime.Object{data, testkit.Claim("logs").Bound("pv-logs"), testkit.Claim("more").Class("fast")},
			forbid: []string{
				"list persistentvolumes", "get persistentvolumes", "list nodes", "get csidrivers", "list events", "get storageclasses",
			},
		},
		"many-nodes": manyNodes(),
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := tc.mustRun(t)
			golden(t, name+".txt", func(out *bytes.Buffer) error { return report.WriteText(out) })
			switch name {
			case "no-fitting-volume":
				golden(t, name+".json", func(out *bytes.Buffer) error { return report.WriteJSON(out) })
			case "selected-node-deleted":
				golden(t, name+".yaml", func(out *bytes.Buffer) error { return report.WriteYAML(out) })
			}
		})
	}
}

// manyNodes has 150 nodes more; few have a volume, for one claim or both.
func manyNodes() scene {
	s := scene{
		pod:     db0("data", "logs"),
		objects: []runtime.Object{testkit.Claim("data"), testkit.Claim("logs").Class("fast")},
		options: explain.Options{AllNodes: true},
	}
	s.pod.Spec.NodeSelector = map[string]string{"pool": "db"}
	s.objects = append(s.objects, testkit.Driver("csi.example.com", true), testkit.Capacity("c-b", "fast", "100Gi").For(v1.LabelTopologyZone, "b"))
	for i := range 150 {
		node := testkit.Node(fmt.Sprintf("node-%03d", i)).Label("pool", "db").Label(v1.LabelTopologyZone, "a")
		if i%50 == 7 {
			node.Label(v1.LabelTopologyZone, "b")
		}
		s.objects = append(s.objects, node)
		if i%25 == 7 {
			s.objects = append(s.objects, testkit.Volume(fmt.Sprint("pv-", i)).OnHost(node.Name))
		}
	}
	return s
}
