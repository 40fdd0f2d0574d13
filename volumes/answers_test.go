package volumes_test

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prebind/prebind/internal/testkit"
)

// What the random runs have found (random_test.go), in its smallest form.

// The answer to the write is lost, and the look at what became of it fails.
func TestBindWritesNothingAgainBeforeALookHasSucceeded(t *testing.T) {
	for resource, pod := range map[string]testkit.PodBuilder{patchVolume: testkit.Pod("db-0").Uses("data-0"), patchClaim: testkit.Pod("db-0").Uses("log-0")} {
		t.Run(resource, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
				e.RunPVController()
				e.RunProvisioner(func(*v1.PersistentVolumeClaim) testkit.VolumeBuilder { return onNode7("pv-new").Class("fast") })
				e.After("patch", resource, 1, func(testkit.Request) error { return apierrors.NewTimeoutError("request timed out", 1) })
				for n := range 3 {
					e.Before("get", resource, n+1, func(testkit.Request) error { return errors.New("connect: connection refused") })
				}
				e.call(pod).endsSoon("")
				if writes := e.Writes(); len(writes) != 1 {
					t.Errorf("writes: %v, want one", writes)
				}
			})
		})
	}
}

// The cache shows the claim under way, or not even that; in truth it was bound,
// deleted, and made anew.
func TestAClaimMadeAnewIsNotTakenForItsPredecessorUnderWay(t *testing.T) {
	old := func() testkit.ClaimBuilder { return testkit.Claim("data-0").WithUID("old") }
	tests := map[string]struct {
		cached testkit.ClaimBuilder
		pv     testkit.VolumeBuilder
		writes []string
	}{
		"being provisioned":     {old().Class("fast").Selected(node7), onNode7("pv-1").Class("fast").ClaimedByUID("data-0", "old"), nil},
		"claimed by its volume": {old(), onNode7("pv-1").ClaimedByUID("data-0", "old"), nil},
		"not bound":             {old(), onNode7("pv-1"), []string{"patch persistentvolumes/pv-1 (409)"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), tc.cached, tc.pv)
				e.Hold("persistentvolumeclaims")
				e.Hold("persistentvolumes")
				e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) {
					testkit.VolumeBuilder{PersistentVolume: v}.ClaimedByUID("data-0", "old").Phase(v1.VolumeBound)
				})
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Bound("pv-1") })
				e.Remove("persistentvolumeclaims", "data-0")
				e.Put(testkit.Claim("data-0").Class(*tc.cached.Spec.StorageClassName))
				e.call(db0()).endsAfter(0, "ClaimReplaced: claim shop/data-0 (class "+*tc.cached.Spec.StorageClassName+"): it was deleted and made anew (uid uid-data-0, was old)")
				e.wrote(tc.writes...)
				e.Release("persistentvolumeclaims")
				e.Release("persistentvolumes")
			})
		})
	}
}
