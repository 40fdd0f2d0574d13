package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

const noFreeVolume = "NoVolume: claim shop/data-0 (class local): node node-7: node(s) didn't find available persistent volumes to bind (%d volumes considered, class provisions none)"

func TestReserveForAPodWithoutClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("web-0").UsesEmptyDir("tmp")
		e := start(t, pod)
		e.call(pod).endsAfter(0, "")
		if reads := e.Reads(); len(reads) > 0 {
			t.Errorf("reads: %v", reads)
		}
	})
}

func TestReserveHoldsVolumesAgainstOtherPods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pods := []testkit.PodBuilder{testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-1"), testkit.Pod("db-2").Uses("data-2")}
		e := start(t, pods[0], pods[1], pods[2], testkit.Claim("data-0"), testkit.Claim("data-1"), testkit.Claim("data-2"), onNode7("pv-1"), onNode7("pv-2"))
		first, err := e.p.Reserve(t.Context(), pods[0].Pod, node7)
		wantText(t, err, "")
		if diff := cmp.Diff([]string{"shop/data-0"}, volumes.ClaimNames(pods[0].Pod)); diff != "" {
			t.Errorf("ClaimNames() (-want +got):\n%s", diff)
		}
		second, err := e.p.Reserve(t.Context(), pods[1].Pod, node7)
		wantText(t, err, "")
		_, err = e.p.Reserve(t.Context(), pods[2].Pod, node7)
		if fault.CodeOf(err) != fault.NoVolume || e.p.Reserved() != 2 {
			t.Errorf("error %q, %d reserved", text(err), e.p.Reserved())
		}
		e.p.Unreserve(first)
		e.p.Unreserve(first) // may be called again
		third, err := e.p.Reserve(t.Context(), pods[2].Pod, node7)
		wantText(t, err, "")
		e.p.Unreserve(second)
		e.p.Unreserve(third)
		e.wrote()
	})
}

func TestReserveOfAVolumeEndsWhenTheCacheShowsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := testkit.Pod("db-1").Uses("data-1")
		e := start(t, db0(), other, testkit.Claim("data-0"), testkit.Claim("data-1"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
		e.RunPVController()
		e.Hold("persistentvolumes")
		call := e.call(db0())
		if n := e.p.Reserved(); n != 1 {
			t.Errorf("%d reserved while the cache lags, want 1", n)
		}
		reservation, err := e.p.Reserve(t.Context(), other.Pod, node7)
		wantText(t, err, "")
		if n := e.p.Reserved(); n != 2 {
			t.Errorf("%d reserved, want 2: the same volume is promised twice", n)
		}
		e.p.Unreserve(reservation)
		e.Release("persistentvolumes")
		call.ends("")
	})
}

// The scheduler has a watch of its own and may be ahead of ours.
func TestReserveReadsLiveWhatTheCacheLacks(t *testing.T) {
	bound := testkit.Claim("data-0").Bound("pv-1")
	tests := map[string]struct {
		held   []string // resources whose watches stand still
		before []runtime.Object
		late   []runtime.Object
	}{
		"the claim":              {[]string{"persistentvolumeclaims"}, []runtime.Object{onNode7("pv-1")}, []runtime.Object{testkit.Claim("data-0")}},
		"the claim's class":      {[]string{"storageclasses"}, []runtime.Object{testkit.Claim("data-0").Class("new"), onNode7("pv-1").Class("new")}, []runtime.Object{testkit.Class("new")}},
		"the node and the pod":   {[]string{"nodes", "pods"}, []runtime.Object{testkit.Claim("data-0"), onNode7("pv-1")}, nil},
		"a bound claim's volume": {[]string{"persistentvolumes"}, []runtime.Object{bound}, []runtime.Object{onNode7("pv-1").ClaimedBy(bound)}},
		"that the claim is bound by now": {
			[]string{"persistentvolumeclaims"},
			[]runtime.Object{testkit.Claim("data-0").Class("now"), testkit.Class("now").Immediate(), onNode7("pv-1").ClaimedBy(bound)},
			[]runtime.Object{testkit.Claim("data-0").Class("now").Bound("pv-1")},
		},
		"that the provisioner gave the claim back (S15 b)": {
			[]string{"persistentvolumeclaims"},
			[]runtime.Object{testkit.Claim("data-0").Selected("node-8"), onNode7("pv-1")},
			[]runtime.Object{testkit.Claim("data-0")},
		},
		"that a terminating claim was made anew": {
			[]string{"persistentvolumeclaims"},
			[]runtime.Object{testkit.Claim("data-0").WithUID("old").Terminating(), onNode7("pv-1")},
			[]runtime.Object{testkit.Claim("data-0")},
		},
		"the node's new label": {
			[]string{"nodes"},
			[]runtime.Object{testkit.Claim("data-0"), testkit.Volume("pv-1").Within("rack", "r1")},
			[]runtime.Object{testkit.Node(node7).Label("rack", "r1")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, tc.before...)
				for _, resource := range tc.held {
					e.Hold(resource)
				}
				e.Put(db0())
				e.Put(tc.late...)
				reservation, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
				wantText(t, err, "")
				if err == nil {
					e.p.Unreserve(reservation)
				}
				e.wrote()
			})
		})
	}
}

// A pod whose objects the cache does not have yet goes all the way.
func TestBindWithCachesThatLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, onNode7("pv-1"))
		for _, resource := range []string{"pods", "persistentvolumeclaims", "persistentvolumes"} {
			e.Hold(resource)
		}
		e.Put(db0(), testkit.Claim("data-0"))
		call := e.call(db0())
		e.wrote("patch persistentvolumes/pv-1")
		e.FinishBinding("pv-1")
		call.waits()
		e.Release("persistentvolumes")
		call.waits()
		e.Release("persistentvolumeclaims")
		call.ends("")
		e.Release("pods")
	})
}

// No watch event comes for a pod that the cache never had; the safety check
// finds out.
func TestWaitChecksNowAndThenWhatTheCacheNeverHad(t *testing.T) {
	tests := map[string]struct {
		happens func(e *env)
		want    string
	}{
		"the pod is gone":   {func(e *env) { e.Remove("pods", "db-0") }, "PodNotFound: pod shop/db-0: pod does not exist any more"},
		"the claim is gone": {func(e *env) { e.Remove("persistentvolumeclaims", "data-0") }, "ClaimNotFound: claim shop/data-0 (class local): it was deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, onNode7("pv-1"))
				e.Hold("pods")
				e.Hold("persistentvolumeclaims")
				e.Put(db0(), testkit.Claim("data-0"))
				call := e.call(db0())
				tc.happens(e)
				call.endsAfter(10*time.Second, tc.want)
			})
		})
	}
}

func TestReserveWaitsAMomentForAVolumeThatTheWatchHasNotShown(t *testing.T) {
	tests := map[string]struct {
		late []runtime.Object
		after,
		took time.Duration
		want string
	}{
		"it comes in time":     {[]runtime.Object{onNode7("pv-1")}, 300 * time.Millisecond, 300 * time.Millisecond, ""},
		"it comes too late":    {[]runtime.Object{onNode7("pv-1")}, 600 * time.Millisecond, 500 * time.Millisecond, fmt.Sprintf(noFreeVolume, 0)},
		"another comes":        {[]runtime.Object{testkit.Volume("pv-1").OnHost("node-8")}, 300 * time.Millisecond, 500 * time.Millisecond, fmt.Sprintf(noFreeVolume, 1)},
		"one is given back":    {[]runtime.Object{onNode7("pv-0")}, 100 * time.Millisecond, 100 * time.Millisecond, ""},
		"nothing comes at all": {nil, 0, 500 * time.Millisecond, fmt.Sprintf(noFreeVolume, 0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-0").ClaimedBy(testkit.Claim("other")))
				time.AfterFunc(tc.after, func() { e.Put(tc.late...) })
				began := time.Now()
				reservation, err := e.p.Reserve(t.Context(), e.Pod("db-0"), node7)
				wantText(t, err, tc.want)
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if err == nil {
					e.p.Unreserve(reservation)
				}
				<-time.After(time.Second) // for what comes too late
			})
		})
	}
}

func TestReserveFailsWithoutAWrite(t *testing.T) {
	owned := testkit.Claim("db-0-scratch")
	tests := map[string]struct {
		pod     testkit.PodBuilder
		objects []runtime.Object
		prepare func(e *env)
		want    string
	}{
		"the node does not exist (S15 a)": {
			db0(),
			[]runtime.Object{testkit.Claim("data-0"), onNode7("pv-1")},
			func(e *env) { e.Remove("nodes", node7) },
			"NodeNotFound: node node-7 does not exist",
		},
		"one of several claims is impossible (S26)": {
			testkit.Pod("db-0").Uses("log-0", "data-0"),
			[]runtime.Object{testkit.Claim("log-0").Class("fast"), testkit.Claim("data-0"), testkit.Volume("pv-1").OnHost("node-8")},
			nil,
			fmt.Sprintf(noFreeVolume, 1),
		},
		"a claim is used as the pod's own and is not (S37)": {
			testkit.Pod("db-0").Uses("db-0-scratch").UsesEphemeral("scratch"),
			[]runtime.Object{owned, onNode7("pv-1")},
			nil,
			"ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
		"the same, named the other way round (S37)": {
			testkit.Pod("db-0").UsesEphemeral("scratch").Uses("db-0-scratch"),
			[]runtime.Object{owned, onNode7("pv-1")},
			nil,
			"ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
		"the API server fails when asked": {
			db0(), nil,
			func(e *env) {
				e.Before("get", "persistentvolumeclaims", 1, func(testkit.Request) error { return apierrors.NewInternalError(errors.New("no leader")) })
			},
			"APIError: get persistentvolumeclaims shop/data-0: Internal error occurred: no leader",
		},
		"RBAC refuses to read (S40)": {
			db0(), nil,
			func(e *env) {
				e.Before("get", "persistentvolumeclaims", 1, func(testkit.Request) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data-0", errors.New("User cannot get"))
				})
			},
			`Forbidden: get persistentvolumeclaims shop/data-0: RBAC refuses it; give prebind's ServiceAccount the rights of its manifest: persistentvolumeclaims "data-0" is forbidden: User cannot get`,
		},
		"the driver has no room": {
			testkit.Pod("db-0").Uses("log-0"),
			[]runtime.Object{
				testkit.Claim("log-0").Class("fast"), testkit.Driver("csi.example.com", true),
				testkit.Capacity("a", "fast", "1Gi"), testkit.Capacity("b", "other", "1Ti"),
			},
			nil,
			"NoCapacity: claim shop/log-0 (class fast): node node-7: node(s) did not have enough free storage (driver csi.example.com)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, append(tc.objects, tc.pod)...)
				if tc.prepare != nil {
					tc.prepare(e)
					synctest.Wait()
				}
				_, err := e.p.Reserve(t.Context(), tc.pod.Pod, node7)
				wantText(t, err, tc.want)
				e.wrote()
			})
		})
	}
}

func TestReserveEndsWithItsCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(fault.New(fault.CallerGone, "the scheduler has hung up")) })
		_, err := e.p.Reserve(ctx, e.Pod("db-0"), node7)
		wantText(t, err, "CallerGone: the scheduler has hung up")
	})
}

// The classes of a claim and of its volumes come from the annotation first.
func TestReserveFindsVolumesByTheirEffectiveClass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0").Class("gone").Annotate(v1.BetaStorageClassAnnotation, "local"),
			onNode7("pv-1").Class("gone"), onNode7("pv-2").Class("").Annotate(v1.BetaStorageClassAnnotation, "local"))
		e.RunPVController()
		e.call(db0()).endsAfter(0, "")
		e.wrote("patch persistentvolumes/pv-2")
	})
}

// The PV controller would never finish the binding to pv-1.
func TestReservePassesOverAPreBoundVolumeWithTooFewAccessModes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1").PreBound("data-0").Modes(v1.ReadOnlyMany), onNode7("pv-2"))
		e.RunPVController()
		e.call(db0()).endsAfter(0, "")
		e.claimedBy("pv-2", "data-0")
	})
}
