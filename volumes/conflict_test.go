package volumes_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

const (
	patchVolume = "persistentvolumes"
	patchClaim  = "persistentvolumeclaims"
)

// meanwhile runs f just before the next write of the resource.
func (e *env) meanwhile(resource string, f func()) {
	e.Before("patch", resource, 1, func(testkit.Request) error { f(); return nil })
}

// takes lets another claim have the volume.
func (e *env) takes(pv, claim string) {
	e.ChangeVolume(pv, func(v *v1.PersistentVolume) {
		testkit.VolumeBuilder{PersistentVolume: v}.ClaimedBy(testkit.Claim(claim))
	})
}

func TestBindKeepsWhatOthersWriteToTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T) { // S03
		e := start(t, db0(), testkit.Claim("data-0").Class("fast"))
		e.RunProvisioner(func(*v1.PersistentVolumeClaim) testkit.VolumeBuilder { return onNode7("pv-new").Class("fast") })
		e.meanwhile(patchClaim, func() {
			e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) {
				c.Labels = map[string]string{"team": "a"}
				c.Annotations = map[string]string{volume.AnnStorageProvisioner: "csi.example.com"}
			})
		})
		e.call(db0()).endsAfter(0, "")
		e.wrote("patch persistentvolumeclaims/data-0 (409)", "patch persistentvolumeclaims/data-0")
		claim := e.Claim("data-0")
		if claim.Labels["team"] != "a" || claim.Annotations[volume.AnnStorageProvisioner] == "" || claim.Annotations[volume.AnnSelectedNode] != node7 {
			t.Errorf("labels %v, annotations %v", claim.Labels, claim.Annotations)
		}
	})
}

func TestBindKeepsWhatOthersWriteToTheVolume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
		e.RunPVController()
		e.meanwhile(patchVolume, func() {
			e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Labels = map[string]string{"rack": "r1"} })
		})
		e.call(db0()).endsAfter(0, "")
		e.wrote("patch persistentvolumes/pv-1 (409)", "patch persistentvolumes/pv-1")
		if e.Volume("pv-1").Labels["rack"] != "r1" {
			t.Error("the foreign label is gone")
		}
	})
}

func TestBindTakesAnotherVolumeWhenItsOwnIsLost(t *testing.T) {
	tests := map[string]func(e *env){
		"taken by another claim (S01)": func(e *env) { e.takes("pv-1", "other") },
		"taken by an older claim of the same name": func(e *env) {
			e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) {
				testkit.VolumeBuilder{PersistentVolume: v}.ClaimedByUID("data-0", "old")
			})
		},
		"deleted": func(e *env) { e.Remove("persistentvolumes", "pv-1") },
		"terminating": func(e *env) {
			e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { testkit.VolumeBuilder{PersistentVolume: v}.Terminating() })
		},
		"no longer available": func(e *env) {
			e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeFailed })
		},
		"made anew for another node": func(e *env) {
			e.Remove("persistentvolumes", "pv-1")
			e.Put(testkit.Volume("pv-1").OnHost("node-8"))
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"))
				e.RunPVController()
				var left *v1.PersistentVolume
				e.meanwhile(patchVolume, func() { lose(e); left = e.Volume("pv-1") })
				e.call(db0()).endsSoon("")
				e.claimedBy("pv-2", "data-0")
				if diff := cmp.Diff(left, e.Volume("pv-1")); diff != "" {
					t.Errorf("the lost volume was touched:\n%s", diff)
				}
			})
		})
	}
}

func TestBindWithoutAnotherVolume(t *testing.T) {
	tests := map[string]struct {
		lose func(e *env)
		want string
	}{
		"taken (S01)": {
			func(e *env) { e.takes("pv-1", "other") },
			"NoVolume: claim shop/data-0 (class local): node node-7: volume pv-1 was chosen, but it is now Bound, claimed by claim shop/other (uid uid-other), and no other fits: node(s) didn't find available persistent volumes to bind",
		},
		"deleted": {
			func(e *env) { e.Remove("persistentvolumes", "pv-1") },
			"NoVolume: claim shop/data-0 (class local): node node-7: volume pv-1 was chosen, but it was deleted, and no other fits: node(s) didn't find available persistent volumes to bind",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-small").Size("1Gi"), testkit.Volume("pv-far").OnHost("node-8"))
				e.meanwhile(patchVolume, func() { tc.lose(e) })
				e.call(db0()).endsSoon(tc.want)
				if writes := e.Writes(); len(writes) != 1 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

// Both claims of a pod lose their volumes; they must not choose the same other
// one.
func TestBindFindsOtherVolumesForTwoClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "data-1")
		e := start(t, pod, testkit.Claim("data-0"), testkit.Claim("data-1"), onNode7("pv-1"), onNode7("pv-2"), onNode7("pv-3").Size("20Gi"), onNode7("pv-4").Size("20Gi"))
		e.RunPVController()
		e.meanwhile(patchVolume, func() { e.takes("pv-1", "other-1"); e.takes("pv-2", "other-2") })
		e.call(pod).endsSoon("")
		e.claimedBy("pv-1", "other-1")
		e.claimedBy("pv-2", "other-2")
		got := []string{e.claimant("pv-3"), e.claimant("pv-4")}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"data-0 uid-data-0", "data-1 uid-data-1"}, got); diff != "" {
			t.Errorf("claimants of pv-3 and pv-4 (-want +got):\n%s", diff)
		}
	})
}

func TestBindWhenTheClaimChangesUnderIt(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(e *env)
		want      string
	}{
		"another replica asked for the same node": {
			func(e *env) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected(node7) })
				e.Provision("data-0", onNode7("pv-new").Class("fast"))
			}, "",
		},
		"another node was asked for": {
			func(e *env) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) {
					testkit.ClaimBuilder{PersistentVolumeClaim: c}.Selected("node-8")
				})
			},
			"SelectedNodeConflict: claim shop/data-0 (class fast): it is being provisioned for node node-8, not node-7: only the provisioner may give it back",
		},
		"somebody bound it to a volume that fits": {
			func(e *env) { e.Provision("data-0", onNode7("pv-new").Class("fast")) }, "",
		},
		"somebody bound it to a volume elsewhere": {
			func(e *env) { e.Provision("data-0", testkit.Volume("pv-new").OnHost("node-8").Class("fast")) },
			"NodeConflict: claim shop/data-0 (class fast): volume pv-new: node(s) didn't match PersistentVolume's node affinity: node node-7: no matching NodeSelectorTerms",
		},
		"it was deleted": {
			func(e *env) { e.Remove("persistentvolumeclaims", "data-0") },
			"ClaimNotFound: claim shop/data-0 (class fast): it was deleted",
		},
		"it was made anew": {
			func(e *env) { e.Put(testkit.Claim("data-0").Class("fast").WithUID("new")) },
			"ClaimReplaced: claim shop/data-0 (class fast): it was deleted and made anew (uid new, was uid-data-0)",
		},
		"it is being deleted": {
			func(e *env) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Terminating() })
			},
			"ClaimTerminating: claim shop/data-0 (class fast): it is being deleted",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), testkit.Claim("data-0").Class("fast"))
				var left *v1.PersistentVolumeClaim
				e.meanwhile(patchClaim, func() { tc.meanwhile(e); left = e.Claim("data-0") })
				e.call(db0()).endsSoon(tc.want)
				if diff := cmp.Diff(left, e.Claim("data-0")); diff != "" {
					t.Errorf("the claim was written:\n%s", diff)
				}
			})
		})
	}
}

func TestBindAfterALostAnswerWritesOnce(t *testing.T) {
	lost := map[string]error{
		"time-out of etcd":    apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		"server time-out":     apierrors.NewTimeoutError("request timed out", 1),
		"connection cut":      errors.New("read tcp: connection reset by peer"),
		"client's own limit":  context.DeadlineExceeded,
		"too many, they say":  apierrors.NewTooManyRequests("slow down", 1),
		"gone, they say":      apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "x"),
		"an odd server error": apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", schema.GroupResource{}, "", "", 0, true),
	}
	for name, answer := range lost {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := testkit.Pod("db-0").Uses("data-0", "log-0")
				e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
				for _, resource := range []string{patchVolume, patchClaim} {
					e.After("patch", resource, 1, func(testkit.Request) error { return answer })
				}
				call := e.call(pod)
				<-time.After(time.Second) // its pauses
				call.waits()
				e.FinishBinding("pv-1")
				e.Provision("log-0", onNode7("pv-new").Class("fast"))
				call.ends("")
				writes := e.Writes()
				slices.Sort(writes)
				if diff := cmp.Diff([]string{"patch persistentvolumeclaims/log-0 (lost)", "patch persistentvolumes/pv-1 (lost)"}, writes); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestBindRetriesWhatMayPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		e.RunPVController()
		for n, err := range []error{
			apierrors.NewInternalError(errors.New("etcd leader changed")),
			apierrors.NewTooManyRequests("slow down", 1),
			errors.New("connect: connection refused"),
		} {
			e.Before("patch", patchVolume, n+1, func(testkit.Request) error { return err })
		}
		e.call(db0()).endsSoon("")
		e.wrote("patch persistentvolumes/pv-1 (500)", "patch persistentvolumes/pv-1 (429)",
			"patch persistentvolumes/pv-1 (connect: connection refused)", "patch persistentvolumes/pv-1")
	})
}

func TestBindGivesUpInTheEnd(t *testing.T) {
	tests := map[string]struct {
		answer error
		code   fault.Code
		writes int // at most
	}{
		"the API server is down":   {errors.New("connect: connection refused"), fault.APIError, 10},
		"the API server is broken": {apierrors.NewInternalError(errors.New("no leader")), fault.APIError, 10},
		"others keep writing":      {apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("modified")), fault.Conflict, 10},
		"RBAC refuses (S40)":       {apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New("no")), fault.Forbidden, 1},
		"the write is invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "x", nil), fault.APIError, 1},
		"the credentials are bad":  {apierrors.NewUnauthorized("no"), fault.APIError, 1},
	}
	for name, tc := range tests {
		for resource, pod := range map[string]testkit.PodBuilder{patchVolume: testkit.Pod("db-0").Uses("data-0"), patchClaim: testkit.Pod("db-0").Uses("log-0")} {
			t.Run(name+", writing "+resource, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
					e.Before("patch", resource, 0, func(testkit.Request) error { return tc.answer })
					call := e.call(pod)
					<-call.done
					if code := fault.CodeOf(call.err); code != tc.code {
						t.Errorf("error %q, want code %s", text(call.err), tc.code)
					}
					if n := len(e.Writes()); n < 1 || n > tc.writes || call.took > 10*time.Second {
						t.Errorf("%d writes in %s, want at most %d", n, call.took, tc.writes)
					}
				})
			})
		}
	}
}

func TestBindNamesWhatRBACRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		e.Before("patch", patchVolume, 1, func(testkit.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "pv-1", errors.New("User cannot patch"))
		})
		e.call(db0()).endsAfter(0, `Forbidden: patch persistentvolumes pv-1: RBAC refuses it; give prebind's ServiceAccount the rights of its manifest: persistentvolumes "pv-1" is forbidden: User cannot patch`)
	})
}

func TestBindWritesNothingForACallerThatHasGone(t *testing.T) {
	gone := fault.New(fault.CallerGone, "the scheduler has hung up")
	pod := testkit.Pod("db-0").Uses("data-0", "log-0")
	t.Run("before the first write", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
			reservation, err := e.p.Reserve(t.Context(), pod.Pod, node7)
			wantText(t, err, "")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(gone)
			wantText(t, e.p.Bind(ctx, pod.Pod, reservation), "CallerGone: the scheduler has hung up")
			e.p.Unreserve(reservation)
			e.wrote()
		})
	})
	t.Run("between two tries", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
			e.Before("patch", patchClaim, 0, func(testkit.Request) error { return errors.New("connect: connection refused") })
			call := e.call(pod)
			call.waits()
			call.cancel(gone)
			call.endsAfter(0, "CallerGone: the scheduler has hung up")
			e.wrote("patch persistentvolumes/pv-1", "patch persistentvolumeclaims/log-0 (connect: connection refused)")
		})
	})
}
