package volumes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/testkit"
)

func db0() testkit.PodBuilder { return testkit.Pod("db-0").Uses("data-0") }

func TestBindWritesClaimRefOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), testkit.Volume("pv-2").OnHost("node-8"))
		claim, pv := e.Claim("data-0"), e.Volume("pv-1")
		call := e.call(db0())
		call.waits()
		e.FinishBinding("pv-1")
		call.endsAfter(0, "")
		e.wrote("patch persistentvolumes/pv-1")
		wantPatch(t, e, map[string]any{
			"metadata": map[string]any{
				"resourceVersion": pv.ResourceVersion, "uid": "uid-pv-1",
				"annotations": map[string]any{volume.AnnBoundByController: "yes"},
			},
			"spec": map[string]any{"claimRef": map[string]any{ // all of it, or the PV controller releases the volume (S05)
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data-0",
				"uid": "uid-data-0", "resourceVersion": claim.ResourceVersion,
			}},
		})
	})
}

func TestBindWritesSelectedNodeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0").Class("fast"))
		claim := e.Claim("data-0")
		call := e.call(db0())
		call.waits()
		e.Provision("data-0", onNode7("pv-new").Class("fast"))
		call.endsAfter(0, "")
		e.wrote("patch persistentvolumeclaims/data-0")
		wantPatch(t, e, map[string]any{"metadata": map[string]any{
			"resourceVersion": claim.ResourceVersion, "uid": "uid-data-0",
			"annotations": map[string]any{volume.AnnSelectedNode: node7},
		}})
	})
}

func wantPatch(t *testing.T, e *env, want map[string]any) {
	t.Helper()
	for _, body := range e.Bodies() {
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("patch (-want +got):\n%s", diff)
		}
	}
}

// The controllers may be done before the write's answer is there.
func TestBindWithControllersThatAreFasterThanTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, testkit.Pod("db-0").Uses("data-0", "log-0"), testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
		e.RunPVController()
		e.RunProvisioner(func(*v1.PersistentVolumeClaim) testkit.VolumeBuilder { return onNode7("pv-new").Class("fast") })
		e.call(testkit.Pod("db-0").Uses("data-0", "log-0")).endsAfter(0, "")
		writes := e.Writes()
		slices.Sort(writes)
		if diff := cmp.Diff([]string{"patch persistentvolumeclaims/log-0", "patch persistentvolumes/pv-1"}, writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

func TestBindWritesNothingForWhatIsUnderWay(t *testing.T) {
	claim := testkit.Claim("data-0")
	tests := map[string]struct {
		claim  testkit.ClaimBuilder
		volume testkit.VolumeBuilder
		finish func(e *env)
	}{
		"claimRef written by an earlier attempt": {
			testkit.Claim("data-0"), onNode7("pv-1").ClaimedByUID("data-0", claim.UID).Annotate(volume.AnnBoundByController, "yes"),
			func(e *env) { e.FinishBinding("pv-1") },
		},
		"a half-bound claim (S06)": {
			testkit.Claim("data-0").Names("pv-1"), onNode7("pv-1").ClaimedBy(claim),
			func(e *env) { e.FinishBinding("pv-1") },
		},
		"selected-node written by an earlier attempt": {
			testkit.Claim("data-0").Class("fast").Selected(node7), testkit.Volume("pv-other"),
			func(e *env) { e.Provision("data-0", onNode7("pv-new").Class("fast")) },
		},
		"a volume that the provisioner has just made": {
			testkit.Claim("data-0").Class("fast").Selected(node7), onNode7("pv-1").Class("fast").ClaimedByUID("data-0", claim.UID).Phase(v1.VolumePending),
			func(e *env) { e.FinishBinding("pv-1") },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), tc.claim, tc.volume)
				call := e.call(db0())
				call.waits()
				tc.finish(e)
				call.endsAfter(0, "")
				e.wrote()
			})
		})
	}
}

func TestBindReadsABoundClaimOnceAndWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		claim := testkit.Claim("data-0").Bound("pv-1")
		e := start(t, db0(), claim, onNode7("pv-1").ClaimedBy(claim))
		e.call(db0()).endsAfter(0, "")
		e.wrote()
		if diff := cmp.Diff([]string{"get persistentvolumeclaims/data-0"}, e.Reads()); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}

func TestBindFillsInTheUIDOfAPreBoundVolume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").PreBound("data-0").Annotate("team", "a"))
		e.RunPVController()
		e.call(db0()).endsAfter(0, "")
		e.wrote("patch persistentvolumes/pv-2")
		e.claimedBy("pv-2", "data-0")
		// It was the administrator's choice, so the PV controller must not
		// think that it was its own (S27).
		if diff := cmp.Diff(map[string]string{"team": "a"}, e.Volume("pv-2").Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
}

func TestBindWritesAllClaimsOfAPodAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 20
		pod := testkit.Pod("db-0")
		objects := []runtime.Object{pod}
		for i := range n {
			pod.Uses(fmt.Sprintf("c-%d", i))
			objects = append(objects, testkit.Claim(fmt.Sprintf("c-%d", i)), onNode7(fmt.Sprintf("pv-%d", i)))
		}
		e := start(t, objects...)
		e.RunPVController()
		e.call(pod).endsAfter(0, "")
		writes := e.Writes()
		slices.Sort(writes)
		if len(slices.Compact(writes)) != n {
			t.Errorf("%d claims, writes: %v", n, writes)
		}
		for i := range n {
			if claim := e.Claim(fmt.Sprintf("c-%d", i)); claim.Spec.VolumeName == "" {
				t.Errorf("claim %s is not bound", claim.Name)
			}
		}
	})
}

func TestBindForPodsThatShareAClaim(t *testing.T) {
	tests := map[string]testkit.ClaimBuilder{
		"static": testkit.Claim("data-0"), "dynamic": testkit.Claim("data-0").Class("fast"),
	}
	for name, claim := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				other := testkit.Pod("db-1").Uses("data-0")
				e := start(t, db0(), other, claim, onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
				first, second := e.call(db0()), e.call(other)
				first.waits()
				second.waits()
				if name == "static" {
					e.FinishBinding("pv-1")
				} else {
					e.Provision("data-0", onNode7("pv-new").Class("fast"))
				}
				first.endsAfter(0, "")
				second.endsAfter(0, "")
				if writes := e.Writes(); len(writes) != 1 {
					t.Errorf("one claim, but writes: %v", writes)
				}
			})
		})
	}
}

func TestBindWritesNothingForANodeThatHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) { // S15 a
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		reservation, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
		wantText(t, err, "")
		e.Remove("nodes", node7)
		synctest.Wait()
		wantText(t, e.p.Bind(t.Context(), e.Pod("db-0"), reservation), "NodeNotFound: node node-7 does not exist")
		e.p.Unreserve(reservation)
		e.wrote()
	})
}
