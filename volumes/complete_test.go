package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

const patchStatus = "persistentvolumes/status"

// startDirect is start with a Prebinder that completes claims itself, and with
// the PV controller, which does nothing unasked.
func startDirect(t *testing.T, objects ...runtime.Object) (*env, *testkit.PVController) {
	t.Helper()
	e := startWith(t, volumes.Config{CompleteClaims: true}, objects...)
	controller := e.NewPVController()
	return e, controller
}

// settles lets the PV controller look at everything until nothing changes, and
// checks that it agrees with what was written.
func (e *env) settles(controller *testkit.PVController, claim, pv string) {
	e.t.Helper()
	for range 3 {
		for _, name := range e.Names("persistentvolumeclaims") {
			controller.SyncClaim(name)
		}
		controller.SyncVolumes()
	}
	if diff := cmp.Diff([]string(nil), controller.Lost()); diff != "" {
		e.t.Errorf("lost claims (-want +got):\n%s", diff)
	}
	if c := e.Claim(claim); c.Spec.VolumeName != pv || c.Status.Phase != v1.ClaimBound {
		e.t.Errorf("in the end claim %s is %s with volume %q, want Bound with %q", claim, c.Status.Phase, c.Spec.VolumeName, pv)
	}
	e.claimedBy(pv, claim)
	if phase := e.Volume(pv).Status.Phase; phase != v1.VolumeBound {
		e.t.Errorf("in the end volume %s is %s, want Bound", pv, phase)
	}
}

func TestDirectWritesWhatThePVControllerWould(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, controller := startDirect(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		claim, pv := e.Claim("data-0"), e.Volume("pv-1")
		e.call(db0()).endsAfter(0, "") // nobody else has written anything
		e.wrote("patch persistentvolumes/pv-1", "patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0")

		want := testkit.ClaimBuilder{PersistentVolumeClaim: claim.DeepCopy()}.
			Names("pv-1").Annotate(volume.AnnBindCompleted, "yes").Annotate(volume.AnnBoundByController, "yes")
		got := e.Claim("data-0")
		want.ResourceVersion = got.ResourceVersion
		if diff := cmp.Diff(want.PersistentVolumeClaim, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("claim (-want +got):\n%s", diff)
		}
		wantPV := pv.DeepCopy()
		gotPV := e.Volume("pv-1")
		wantPV.ResourceVersion, wantPV.Spec.ClaimRef, wantPV.Status.Phase = gotPV.ResourceVersion, gotPV.Spec.ClaimRef, v1.VolumeBound
		testkit.VolumeBuilder{PersistentVolume: wantPV}.Annotate(volume.AnnBoundByController, "yes")
		if diff := cmp.Diff(wantPV, gotPV, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("volume (-want +got):\n%s", diff)
		}
		e.settles(controller, "data-0", "pv-1")
	})
}

// Whatever the PV controller has not seen free is left to it.
func TestDirectLeavesToThePVController(t *testing.T) {
	tests := map[string]struct {
		volume    testkit.VolumeBuilder
		meanwhile func(e *env) // before the call, and seen by the cache
		writes    []string
	}{
		"a volume that an administrator has pre-bound": {
			volume: onNode7("pv-1").PreBound("data-0"), writes: []string{"patch persistentvolumes/pv-1"},
		},
		"a volume claimed by an earlier attempt": {
			volume: onNode7("pv-1").ClaimedByUID("data-0", testkit.UID("data-0")).Annotate(volume.AnnBoundByController, "yes"),
		},
		"a volume whose claimRef was taken away": {
			volume: onNode7("pv-1").Annotate(volume.AnnBoundByController, "yes"), writes: []string{"patch persistentvolumes/pv-1"},
		},
		"a volume that was pre-bound a moment ago": {
			volume:    onNode7("pv-1").PreBound("other"),
			meanwhile: func(e *env) { e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }) },
			writes:    []string{"patch persistentvolumes/pv-1"},
		},
		"a volume that nothing protects from deletion": {
			volume:    onNode7("pv-1"),
			meanwhile: func(e *env) { e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Finalizers = nil }) },
			writes:    []string{"patch persistentvolumes/pv-1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, controller := startDirect(t, db0(), testkit.Claim("data-0"), tc.volume)
				if tc.meanwhile != nil {
					tc.meanwhile(e)
					synctest.Wait()
				}
				call := e.call(db0())
				call.waits()
				e.wrote(tc.writes...)
				controller.SyncVolume("pv-1")
				call.endsAfter(0, "")
				e.settles(controller, "data-0", "pv-1")
			})
		})
	}
}

// The volume was pre-bound to another claim, and is free again; the PV controller
// knows only the first. To complete the claim now would be to lose it.
func TestDirectTakesTheWordOfNoLaggingController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, _ := startDirect(t, db0(), testkit.Claim("data-0"), onNode7("pv-1").PreBound("other"))
		controller := e.NewPVController()
		e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil })
		synctest.Wait()
		call := e.call(db0())
		controller.SyncClaim("data-0") // before it looks at the volume again
		call.waits()
		controller.SyncVolume("pv-1")
		call.endsAfter(0, "")
		e.settles(controller, "data-0", "pv-1")
	})
}

// Claims that are provisioned stay as they are, beside static ones.
func TestDirectWithStaticAndProvisionedClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "log-0", "tmp-0")
		e, controller := startDirect(t, pod, testkit.Claim("data-0"), testkit.Claim("log-0"), testkit.Claim("tmp-0").Class("fast"), onNode7("pv-1"), onNode7("pv-2"))
		call := e.call(pod)
		call.waits()
		e.Provision("tmp-0", onNode7("pv-new").Class("fast"))
		controller.SyncVolume("pv-new")
		call.endsAfter(0, "")
		if n := len(e.Writes()); n != 7 {
			t.Errorf("%d writes, want 3 for each static claim and 1 for the other: %v", n, e.Writes())
		}
		e.settles(controller, "data-0", e.Claim("data-0").Spec.VolumeName)
		e.settles(controller, "log-0", e.Claim("log-0").Spec.VolumeName)
	})
}

// The PV controller, or anybody, comes between two of our writes. "before" is
// just before the write of the resource.
func TestDirectWhenSomebodyComesBetween(t *testing.T) {
	labelVolume := func(e *env, _ *testkit.PVController) {
		e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} })
	}
	labelBoth := func(e *env, c *testkit.PVController) {
		labelVolume(e, c)
		e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })
	}
	controllerFirst := func(_ *env, c *testkit.PVController) {
		c.SyncVolume("pv-1")
		time.Sleep(time.Millisecond) // virtual: the caches show it
	}
	half := func(e *env, _ *testkit.PVController) {
		e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
	}
	remove := func(e *env, _ *testkit.PVController) { e.Remove("persistentvolumes", "pv-1") }
	marked := func(e *env, _ *testkit.PVController) {
		e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { testkit.VolumeBuilder{PersistentVolume: v}.Terminating() })
	}
	tests := map[string]struct {
		before string
		do     func(e *env, c *testkit.PVController)
		want   string
		pv     string   // that the claim has in the end; "": none
		writes []string // after the claimRef
	}{
		"the controller, before the phase": {
			patchStatus, controllerFirst, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1 (409)"}, // and the cache spares the other one
		},
		"the controller, half done": { // it has its turn
			patchStatus, func(e *env, c *testkit.PVController) {
				half(e, c)
				go func() {
					time.Sleep(10 * time.Millisecond)
					c.SyncVolume("pv-1")
				}()
			}, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1 (409)"},
		},
		"the controller, half done and too slow": {
			patchStatus, half, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1 (409)", "patch persistentvolumeclaims/data-0"},
		},
		"the controller, before the claim": {
			patchClaim, controllerFirst, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (409)"},
		},
		"a label, before the phase": {
			patchStatus, labelVolume, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1 (409)", "patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0"},
		},
		"labels, before the claim": {
			patchClaim, labelBoth, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (409)", "patch persistentvolumeclaims/data-0"},
		},
		"the volume is deleted, before the phase": {
			patchStatus, remove,
			"ClaimRefReset: claim shop/data-0 (class local): volume pv-1 was deleted before the claim was bound to it", "",
			[]string{"patch persistentvolumes/status/pv-1 (404)"},
		},
		"the volume is marked, before the phase": {
			patchStatus, marked,
			"ClaimRefReset: claim shop/data-0 (class local): volume pv-1 is being deleted before the claim was bound to it", "",
			[]string{"patch persistentvolumes/status/pv-1 (409)"},
		},
		"the volume is marked, before the claim": { // it stays, as it is in use
			patchClaim, marked, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0"},
		},
		"the claimRef is reset, before the phase": {
			patchStatus, func(e *env, _ *testkit.PVController) {
				e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil })
			},
			`ClaimRefReset: claim shop/data-0 (class local): ClaimRef got reset for pv "pv-1": it is now Available, claimed by no claim`, "",
			[]string{"patch persistentvolumes/status/pv-1 (409)"},
		},
		"the claim is deleted": {
			patchClaim, func(e *env, _ *testkit.PVController) { e.Remove("persistentvolumeclaims", "data-0") },
			"ClaimNotFound: claim shop/data-0 (class local): it was deleted", "",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (404)"},
		},
		"the claim is made anew": {
			patchClaim, func(e *env, _ *testkit.PVController) {
				e.Remove("persistentvolumeclaims", "data-0")
				e.Put(testkit.Claim("data-0").WithUID("new"))
			},
			"ClaimReplaced: claim shop/data-0 (class local): it was deleted and made anew (uid new, was uid-data-0)", "",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (409)"},
		},
		"the claim gets another volume": { // ours is given up by the controller
			patchClaim, func(e *env, c *testkit.PVController) {
				e.Put(onNode7("pv-2").ClaimedByUID("data-0", testkit.UID("data-0")).Annotate(volume.AnnBoundByController, "yes"))
				c.SyncVolume("pv-2") // it still knows pv-1 as free
			}, "", "pv-2",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (409)"},
		},
		"another replica wants the claim provisioned": {
			patchClaim, func(e *env, c *testkit.PVController) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected(node7) })
				c.SyncVolume("pv-1")
			}, "", "pv-1",
			[]string{"patch persistentvolumes/status/pv-1", "patch persistentvolumeclaims/data-0 (409)"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, controller := startDirect(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
				e.meanwhile(tc.before, func() { tc.do(e, controller) })
				call := e.call(db0())
				call.endsSoon(tc.want)
				e.wrote(append([]string{"patch persistentvolumes/pv-1"}, tc.writes...)...)
				if tc.pv != "" {
					e.settles(controller, "data-0", tc.pv)
				}
				if len(controller.Lost()) > 0 {
					t.Errorf("lost: %v", controller.Lost())
				}
			})
		})
	}
}

// Where the PV controller was faster it goes first the next time, as long as it is.
func TestDirectGivesAFastControllerItsTurn(t *testing.T) {
	const turn = 25 * time.Millisecond
	bubble(t, func(t *testing.T) {
		e, controller := startDirect(t)
		bind := func(n string, took time.Duration, writes ...string) {
			t.Helper()
			pod := testkit.Pod("db-" + n).Uses("data-" + n)
			e.Put(pod, testkit.Claim("data-"+n), onNode7("pv-"+n))
			controller.SyncVolumes()
			synctest.Wait()
			before := len(e.Writes())
			e.call(pod).endsAfter(took, "")
			if diff := cmp.Diff(writes, e.Writes()[before:]); diff != "" {
				t.Errorf("pod %s: writes (-want +got):\n%s", n, diff)
			}
			e.settles(controller, "data-"+n, "pv-"+n)
		}
		e.meanwhile(patchStatus, func() {
			controller.SyncVolume("pv-0")
			time.Sleep(time.Millisecond)
		})
		bind("0", time.Millisecond, "patch persistentvolumes/pv-0", "patch persistentvolumes/status/pv-0 (409)")
		go func() {
			time.Sleep(5 * time.Millisecond)
			controller.SyncVolume("pv-1")
		}()
		bind("1", 5*time.Millisecond, "patch persistentvolumes/pv-1")
		all := func(n string) []string {
			return []string{"patch persistentvolumes/pv-" + n, "patch persistentvolumes/status/pv-" + n, "patch persistentvolumeclaims/data-" + n}
		}
		bind("2", turn, all("2")...) // it does not come
		bind("3", 0, all("3")...)
	})
}

// An answer that is lost costs no second write; one that says no leaves the claim
// to the PV controller.
func TestDirectWithBadAnswers(t *testing.T) {
	lost := apierrors.NewTimeoutError("lost", 0)
	for resource, writes := range map[string]int{patchVolume: 1, patchStatus: 3, patchClaim: 3} {
		t.Run("lost: "+resource, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, controller := startDirect(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
				e.After("patch", resource, 1, func(testkit.Request) error { return lost })
				call := e.call(db0())
				if resource == patchVolume { // what it was written on is not known for sure
					call.waits()
					controller.SyncVolume("pv-1")
				}
				call.endsSoon("")
				if len(e.Writes()) != writes {
					t.Errorf("writes: %v, want %d", e.Writes(), writes)
				}
				e.settles(controller, "data-0", "pv-1")
			})
		})
	}
	for _, resource := range []string{patchStatus, patchClaim} {
		t.Run("forbidden: "+resource, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, controller := startDirect(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
				e.Before("patch", resource, 0, func(testkit.Request) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "it", nil)
				})
				call := e.call(db0())
				call.waits()
				controller.SyncVolume("pv-1")
				call.endsAfter(0, "")
				e.settles(controller, "data-0", "pv-1")
			})
		})
	}
}
