package volumes_test

import (
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

func TestCachesDropFromClaimsAndVolumesWhatNobodyReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kept := func() (testkit.ClaimBuilder, testkit.VolumeBuilder) {
			claim := testkit.Claim("data-0").Selected(node7).Annotate("kubernetes.io/x", "y").Selects("rack", "r1")
			pv := testkit.Volume("pv-1").Annotate("pv.kubernetes.io/bound-by-controller", "yes").Label("rack", "r1")
			claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "db-0"}}
			claim.Finalizers, pv.Finalizers = []string{"kubernetes.io/pvc-protection"}, []string{"kubernetes.io/pv-protection"}
			pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "vol-1"}
			return claim, pv
		}
		claim, pv := kept()
		claim.Annotate(v1.LastAppliedConfigAnnotation, "{...}").Annotate("example.com/x", "y").Annotate("notkubernetes.io/x", "y").Annotate("x", "y")
		pv.Annotate(v1.LastAppliedConfigAnnotation, "{...}").Annotate("x", "y")
		claim.ManagedFields, pv.ManagedFields = managed, managed
		claim.Labels = map[string]string{"app": "db"}
		claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimResizing}}
		pv.Spec.CSI.VolumeAttributes = map[string]string{"x": "y"}
		pv.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Name: "x"}
		e := start(t, claim, pv)
		gotClaim, gotVolume := cached(t, e, "data-0", "pv-1")
		claim, pv = kept()
		claim.ResourceVersion, pv.ResourceVersion = gotClaim.ResourceVersion, gotVolume.ResourceVersion
		if diff := cmp.Diff(claim.PersistentVolumeClaim, gotClaim); diff != "" {
			t.Errorf("cached claim (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(pv.PersistentVolume, gotVolume); diff != "" {
			t.Errorf("cached volume (-want +got):\n%s", diff)
		}
	})
}

// A claim's size alone takes as much memory as the rest of it.
func TestCachesHoldOneCopyOfASize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, testkit.Claim("data-0").Size("7Gi"), testkit.Claim("data-1").Size("7Gi"), testkit.Claim("data-2").Size("8Gi"),
			testkit.Volume("pv-0").Size("7Gi"), testkit.Volume("pv-1").Size("8Gi"))
		first, seven := cached(t, e, "data-0", "pv-0")
		second, eight := cached(t, e, "data-1", "pv-1")
		third, _ := cached(t, e, "data-2", "pv-1")
		lists := []v1.ResourceList{first.Spec.Resources.Requests, second.Spec.Resources.Requests, seven.Spec.Capacity, third.Spec.Resources.Requests, eight.Spec.Capacity}
		for i, want := range []string{"7Gi", "7Gi", "7Gi", "8Gi", "8Gi"} {
			if size := lists[i][v1.ResourceStorage]; size.String() != want {
				t.Errorf("list %d has size %s, want %s", i, &size, want)
			}
		}
		at := func(i int) uintptr { return reflect.ValueOf(lists[i]).Pointer() }
		if at(0) != at(1) || at(1) != at(2) || at(3) != at(4) || at(0) == at(3) {
			t.Error("lists of the same size are not the same list")
		}
	})
}

// cached returns a claim and a volume as the caches have them.
func cached(t *testing.T, e *env, claim, pv string) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	t.Helper()
	c, err := e.caches.Claims.PersistentVolumeClaims("shop").Get(claim)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.caches.Volumes.Get(pv)
	if err != nil {
		t.Fatal(err)
	}
	return c, v
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
