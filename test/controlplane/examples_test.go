package controlplane_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/test/build"
)

func TestAPIServerTakesWhatTheBuildersMake(t *testing.T) {
	ctx := testContext(t)
	ns := namespace(ctx, t)
	pod := build.Pod(ns, "pod").Claim("claim").Ephemeral("scratch", ns, "1Gi").CPU("1").Gate("test/gate").Label("a", "b").Obj()
	err := plane.Create(ctx,
		build.Node(ns+"-node").Zone("a").Hostname("short").Label("a", "b").Capacity(corev1.ResourcePods, "3").Taint("a", corev1.TaintEffectNoSchedule).Obj(),
		build.Class(ns).Provisioner("test/none").Param("a", "b").AllowedTopology(corev1.LabelTopologyZone, "a", "b").Retain().Obj(),
		build.Class(ns+"-immediate").Immediate().Obj(),
		build.Volume(ns+"-local").Class(ns).Capacity("1Gi").Modes(corev1.ReadWriteMany).Block().OnNode("a", "b").Label("a", "b").Obj(),
		build.Volume(ns+"-zone").InZone("a").CSI("test.csi").Reclaim(corev1.PersistentVolumeReclaimDelete).Annotation("a", "b").Obj(),
		build.Volume(ns+"-path").HostPath().ClaimRef(ns, "claim", "").Obj(),
		build.Claim(ns, "claim").Class(ns).Size("2Gi").Modes(corev1.ReadWriteMany).Block().Selector("a", "b").Label("a", "b").Annotation("a", "b").Obj(),
		build.Claim(ns, "prebound").Class("").Volume(ns+"-path").Obj(),
		pod,
		build.StatefulSet(ns, "set").Replicas(0).Parallel().ClaimTemplate("data", ns, "1Gi").Obj(),
		build.Deployment(ns, "deployment").Replicas(0).Pods(func(p *build.PodBuilder) { p.CPU("2") }).Obj(),
	)
	if err != nil {
		t.Fatal(err)
	}
	made, err := plane.Client().CoreV1().Pods(ns).Get(ctx, "pod", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.Create(ctx, build.Claim(ns, "pod-other").Class(ns).OwnedBy(made).Obj()); err != nil {
		t.Fatal(err)
	}
}

func TestExampleOfTheConfigurationHasTheDefaults(t *testing.T) {
	var example, defaults any
	for path, into := range map[string]*any{
		"../../examples/prebind.yaml": &example,
		"../../config/default.yaml":   &defaults,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if diff := cmp.Diff(defaults, example); diff != "" {
		t.Errorf("examples/prebind.yaml (-default +example):\n%s", diff)
	}
}
