package volumes_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

var managed = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}

func TestCachesKeepOfAPodWhatIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0").UsesEphemeral("scratch").UsesEmptyDir("tmp").Gated("wait")
		pod.Labels, pod.ManagedFields = map[string]string{"app": "db"}, managed
		pod.Spec.Containers = []v1.Container{{Name: "db", Image: "db"}}
		e := start(t, pod)
		got, err := e.caches.Pods.Pods("shop").Get("db-0")
		if err != nil {
			t.Fatal(err)
		}
		want := testkit.Pod("db-0").Uses("data-0").UsesEphemeral("scratch").Gated("wait").Pod
		want.ResourceVersion = got.ResourceVersion
		want.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cached pod (-want +got):\n%s", diff)
		}
	})
}

func TestCachesHoldUnassignedPodsOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		done := testkit.Pod("done")
		done.Status.Phase = v1.PodSucceeded
		e := start(t, testkit.Pod("waits"), testkit.Pod("runs").OnNode(node7), testkit.Pod("moves"), done)
		e.ChangePod("moves", func(p *v1.Pod) { p.Spec.NodeName = node7 })
		synctest.Wait()
		pods, err := e.caches.Pods.List(labels.Everything())
		if err != nil || len(pods) != 1 || pods[0].Name != "waits" {
			t.Errorf("cached pods: %v, error %v", pods, err)
		}
	})
}

func TestCachesKeepOfANodeItsLabels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		node := testkit.Node("n1").Label("rack", "r1")
		node.ManagedFields, node.Annotations = managed, map[string]string{"x": "y"}
		node.Status.Images = []v1.ContainerImage{{SizeBytes: 1}}
		e := start(t, node)
		got, err := e.caches.Nodes.Get("n1")
		if err != nil {
			t.Fatal(err)
		}
		want := testkit.Node("n1").Label("rack", "r1").Node
		want.ResourceVersion = got.ResourceVersion
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cached node (-want +got):\n%s", diff)
		}
	})
}

func TestCachesDropFromClaimsAndVolumesWhatIsLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		claim := testkit.Claim("data-0").Selected(node7).Annotate(v1.LastAppliedConfigAnnotation, "{...}")
		pv := testkit.Volume("pv-1").Annotate("x", "y").Annotate(v1.LastAppliedConfigAnnotation, "{...}")
		claim.ManagedFields, pv.ManagedFields = managed, managed
		e := start(t, claim, pv)
		gotClaim, err := e.caches.Claims.PersistentVolumeClaims("shop").Get("data-0")
		if err != nil {
			t.Fatal(err)
		}
		gotVolume, err := e.caches.Volumes.Get("pv-1")
		if err != nil {
			t.Fatal(err)
		}
		wantClaim, wantVolume := testkit.Claim("data-0").Selected(node7), testkit.Volume("pv-1").Annotate("x", "y")
		wantClaim.ResourceVersion, wantVolume.ResourceVersion = gotClaim.ResourceVersion, gotVolume.ResourceVersion
		if diff := cmp.Diff(wantClaim.PersistentVolumeClaim, gotClaim); diff != "" {
			t.Errorf("cached claim (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantVolume.PersistentVolume, gotVolume); diff != "" {
			t.Errorf("cached volume (-want +got):\n%s", diff)
		}
	})
}

func TestCachesTellWhetherTheyAreSynced(t *testing.T) {
	api := testkit.NewAPI(t)
	caches, err := volumes.NewCaches(api.Client)
	if err != nil {
		t.Fatal(err)
	}
	for resource, synced := range caches.Synced() {
		if synced() {
			t.Errorf("%s are synced before they are started", resource)
		}
	}
	if n := len(caches.Synced()); n != 8 {
		t.Errorf("%d caches, want 8", n)
	}
}

func TestHasClaims(t *testing.T) {
	tests := map[string]struct {
		pod  testkit.PodBuilder
		want bool
	}{
		"no volumes":  {testkit.Pod("a"), false},
		"an emptyDir": {testkit.Pod("a").UsesEmptyDir("tmp"), false},
		"a claim":     {testkit.Pod("a").UsesEmptyDir("tmp").Uses("data"), true},
		"ephemeral":   {testkit.Pod("a").UsesEphemeral("scratch"), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := volumes.HasClaims(tc.pod.Pod); got != tc.want {
				t.Errorf("HasClaims() = %v, want %v", got, tc.want)
			}
		})
	}
}
