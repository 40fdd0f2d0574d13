package volumes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// What a watch that lags must not lead to.

func TestAPodMadeAnewIsNotTakenForItsPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0().WithUID("old"), testkit.Claim("data-0"), onNode7("pv-1"))
		e.Hold("pods")
		e.Remove("pods", "db-0")
		e.Put(db0())
		e.RunPVController()
		e.call(db0()).endsAfter(0, "")
		e.Release("pods")
	})
}

func TestAClaimMadeAnewIsNotTakenForItsBoundPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := testkit.Claim("data-0").WithUID("old").Bound("pv-1")
		e := start(t, db0(), old, onNode7("pv-1").ClaimedBy(old))
		e.Hold("persistentvolumeclaims")
		e.Remove("persistentvolumeclaims", "data-0")
		e.Put(testkit.Claim("data-0"))
		e.call(db0()).endsAfter(0, "ClaimReplaced: claim shop/data-0 (class local): it was deleted and made anew (uid uid-data-0, was old)")
		e.wrote()
		e.Release("persistentvolumeclaims")
	})
}

func TestAVolumeThatIsLostToAnotherClaimFreesTheClaimsOtherHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pods := []testkit.PodBuilder{testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-0")}
		e := start(t, pods[0], pods[1], testkit.Claim("data-0"), onNode7("pv-1"))
		second, err := e.p.Reserve(t.Context(), e.Pod("db-1"), node7)
		wantText(t, err, "")
		e.Put(onNode7("pv-2"))
		synctest.Wait()
		e.Hold("persistentvolumes")
		e.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "other", UID: "other"}
			pv.Status.Phase = v1.VolumeBound
		})
		e.RunPVController()
		call := e.call(pods[0])
		e.Release("persistentvolumes")
		call.ends("")
		e.p.Unreserve(second)
		if got := e.Claim("data-0").Spec.VolumeName; got != "pv-2" {
			t.Errorf("the claim is bound to %q, want pv-2", got)
		}
	})
}

func TestAClaimAndAVolumeThatTheWatchesShowLateAreFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0())
		e.Hold("persistentvolumeclaims")
		e.Hold("persistentvolumes")
		e.Put(testkit.Claim("data-0"), onNode7("pv-1"))
		call := e.call(db0())
		call.waits()
		e.Release("persistentvolumeclaims")
		e.Release("persistentvolumes")
		e.RunPVController()
		<-call.done
		wantText(t, call.err, "")
		if call.took > time.Second {
			t.Errorf("it took %s", call.took)
		}
	})
}

func TestAClaimMadeAnewDuringAConflictGetsNoSecondVolume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0").WithUID("old"), onNode7("pv-1"), onNode7("pv-2").Size("100Gi"))
		e.Before("patch", "persistentvolumes", 1, func(testkit.Request) error {
			e.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) {
				pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "other", UID: "other"}
			})
			e.Hold("persistentvolumeclaims")
			e.Remove("persistentvolumeclaims", "data-0")
			e.Put(testkit.Claim("data-0"))
			return nil
		})
		e.call(db0()).endsAfter(0, "ClaimReplaced: claim shop/data-0 (class local): it was deleted and made anew (uid uid-data-0, was old)")
		e.wrote("patch persistentvolumes/pv-1 (409)")
		e.Release("persistentvolumeclaims")
	})
}

// One pod holds pv-1 for the claim when pv-2 turns up pre-bound to it.
func TestAVolumeThatIsPreBoundNeedsNoReservation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pods := []testkit.PodBuilder{testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-0")}
		e := start(t, pods[0], pods[1], testkit.Claim("data-0"), onNode7("pv-1"))
		first, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
		wantText(t, err, "")
		e.Put(onNode7("pv-2").PreBound("data-0"))
		synctest.Wait()
		e.RunPVController()
		e.call(pods[1]).endsAfter(0, "")
		e.p.Unreserve(first)
	})
}

func TestAVolumeThatWasTheClaimsAndIsNoMoreEndsTheWait(t *testing.T) {
	tests := map[string]struct {
		happens func(e *env)
		want    string
	}{
		"claimRef is reset": {
			func(e *env) { e.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }) },
			"ClaimRefReset: claim shop/data-0 (class local): ClaimRef got reset for pv \"pv-1\"",
		},
		"the volume is deleted": {
			func(e *env) { e.Remove("persistentvolumes", "pv-1") },
			"VolumeNotFound: claim shop/data-0 (class local): volume pv-1 was deleted",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				half := testkit.Claim("data-0").Names("pv-1")
				e := start(t, db0(), half, onNode7("pv-1").ClaimedBy(half))
				call := e.call(db0())
				call.waits()
				tc.happens(e)
				synctest.Wait()
				<-call.done
				if got := text(call.err); !strings.HasPrefix(got, tc.want) || call.took != 0 {
					t.Errorf("after %s: %q, want %q at once", call.took, got, tc.want)
				}
			})
		})
	}
}

func TestClaimNamesListsEachClaimOnce(t *testing.T) {
	pod := testkit.Pod("db-0").Uses("data-0", "log-0", "data-0").UsesEphemeral("tmp")
	if got := strings.Join(volumes.ClaimNames(pod.Pod), " "); got != "shop/data-0 shop/log-0 shop/db-0-tmp" {
		t.Errorf("ClaimNames() = %s", got)
	}
}
