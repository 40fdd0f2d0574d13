package volumes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// both is a pod that waits for a static binding, to pv-1, and for a
// provisioner.
func both(t *testing.T) (*env, *call) {
	t.Helper()
	pod := testkit.Pod("db-0").Uses("data-0", "log-0")
	e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
	call := e.call(pod)
	call.waits()
	return e, call
}

func unselect(c *v1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) }

func release(v *v1.PersistentVolume) { v.Spec.ClaimRef, v.Status.Phase = nil, v1.VolumeAvailable }

func warn(e *env, message string, second int64) {
	e.Put(testkit.Event("warning", e.Claim("log-0"), v1.EventTypeWarning, "ProvisioningFailed", message, second))
}

func TestWaitEndsAtOnceWhenItIsOfNoUse(t *testing.T) {
	tests := map[string]struct {
		happens func(e *env)
		want    string
	}{
		"claimRef is reset (S05)": {
			func(e *env) { e.ChangeVolume("pv-1", release) },
			`ClaimRefReset: claim shop/data-0 (class local): ClaimRef got reset for pv "pv-1": it is now Available, claimed by no claim`,
		},
		"claimRef loses its uid (S05)": {
			func(e *env) { e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }) },
			`ClaimRefReset: claim shop/data-0 (class local): ClaimRef got reset for pv "pv-1": it is now Available, claimed by claim shop/data-0 (uid )`,
		},
		"claimRef becomes another claim's": {
			func(e *env) { e.takes("pv-1", "other") },
			`ClaimRefReset: claim shop/data-0 (class local): ClaimRef got reset for pv "pv-1": it is now Bound, claimed by claim shop/other (uid uid-other)`,
		},
		"the volume is deleted": {
			func(e *env) { e.Remove("persistentvolumes", "pv-1") },
			"ClaimRefReset: claim shop/data-0 (class local): volume pv-1 was deleted before the claim was bound to it",
		},
		"the volume is being deleted": {
			func(e *env) {
				e.ChangeVolume("pv-1", func(v *v1.PersistentVolume) { testkit.VolumeBuilder{PersistentVolume: v}.Terminating() })
			},
			"ClaimRefReset: claim shop/data-0 (class local): volume pv-1 is being deleted before the claim was bound to it",
		},
		"selected-node is removed (S17)": {
			func(e *env) { warn(e, "rpc error: quota exceeded", 5); e.ChangeClaim("log-0", unselect) },
			"ProvisioningFailed: claim shop/log-0 (class fast): node-7: ProvisioningFailed: rpc error: quota exceeded",
		},
		"selected-node is moved": {
			func(e *env) {
				e.ChangeClaim("log-0", func(c *v1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = "node-8" })
			},
			"SelectedNodeConflict: claim shop/log-0 (class fast): it is being provisioned for node node-8, not node-7: only the provisioner may give it back",
		},
		"the pod is deleted (S12)": {
			func(e *env) { e.Remove("pods", "db-0") },
			"PodNotFound: pod shop/db-0: pod does not exist any more",
		},
		"the pod is being deleted (S12)": {
			func(e *env) {
				e.ChangePod("db-0", func(p *v1.Pod) { testkit.PodBuilder{Pod: p}.Terminating() })
			},
			"PodTerminating: pod shop/db-0: it is being deleted",
		},
		"the pod is made anew (S11)": {
			func(e *env) { e.Put(testkit.Pod("db-0").WithUID("new")) },
			"PodReplaced: pod shop/db-0: it was deleted and made anew (uid new, was uid-db-0)",
		},
		"somebody assigns the pod elsewhere (S10)": {
			func(e *env) { e.ChangePod("db-0", func(p *v1.Pod) { p.Spec.NodeName = "node-8" }) },
			"PodAssigned: pod shop/db-0: somebody has assigned it to node node-8 meanwhile",
		},
		"the node is deleted (S15 c)": {
			func(e *env) { e.Remove("nodes", node7) },
			"NodeNotFound: node node-7: it was deleted while claims of pod shop/db-0 were being bound for it",
		},
		"the node can no longer reach the volume": {
			func(e *env) { e.ChangeNode(node7, func(n *v1.Node) { n.Labels[v1.LabelHostname] = "renamed" }) },
			"NodeConflict: claim shop/data-0 (class local): volume pv-1: node(s) didn't match PersistentVolume's node affinity: node node-7: no matching NodeSelectorTerms",
		},
		"a claim is deleted": {
			func(e *env) { e.Remove("persistentvolumeclaims", "log-0") },
			"ClaimNotFound: claim shop/log-0 (class fast): it was deleted",
		},
		"a claim is made anew": {
			func(e *env) { e.Put(testkit.Claim("data-0").WithUID("new")) },
			"ClaimReplaced: claim shop/data-0 (class local): it was deleted and made anew (uid new, was uid-data-0)",
		},
		"a claim is being deleted": {
			func(e *env) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Terminating() })
			},
			"ClaimTerminating: claim shop/data-0 (class local): it is being deleted",
		},
		"a claim is lost": {
			func(e *env) {
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) {
					testkit.ClaimBuilder{PersistentVolumeClaim: c}.Names("pv-1").Lost()
				})
			},
			`ClaimLost: claim shop/data-0 (class local): bound to non-existent persistentvolume "pv-1"`,
		},
		"the volume that is made does not fit the node (S50)": {
			func(e *env) { e.Provision("log-0", testkit.Volume("pv-new").OnHost("node-8").Class("fast")) },
			"NodeConflict: claim shop/log-0 (class fast): volume pv-new: node(s) didn't match PersistentVolume's node affinity: node node-7: no matching NodeSelectorTerms",
		},
		"the PV controller binds the claim to a volume elsewhere": {
			func(e *env) {
				e.Put(testkit.Volume("pv-2").OnHost("node-8").ClaimedBy(testkit.Claim("data-0")))
				e.FinishBinding("pv-2")
			},
			"NodeConflict: claim shop/data-0 (class local): volume pv-2: node(s) didn't match PersistentVolume's node affinity: node node-7: no matching NodeSelectorTerms",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, call := both(t)
				before := e.Writes()
				<-time.After(time.Minute)
				tc.happens(e)
				call.endsAfter(time.Minute, tc.want)
				e.wrote(before...) // nothing is undone
			})
		})
	}
}

func TestWaitGoesOnWhen(t *testing.T) {
	tests := map[string]func(e *env){
		"nothing happens":                       func(*env) {},
		"somebody assigns the pod to this node": func(e *env) { e.ChangePod("db-0", func(p *v1.Pod) { p.Spec.NodeName = node7 }) },
		"the node is made anew": func(e *env) {
			node := testkit.Node(node7)
			node.UID = "new"
			e.Put(node)
		},
		"the node's other labels change": func(e *env) { e.ChangeNode(node7, func(n *v1.Node) { n.Labels["x"] = "y" }) },
		"the claims' labels change": func(e *env) {
			e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"x": "y"} })
			e.ChangeClaim("log-0", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"x": "y"} })
		},
		"one of two claims is bound": func(e *env) { e.FinishBinding("pv-1") },
		"a claim is half bound (S06)": func(e *env) {
			e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-1" })
		},
		"a volume is made but not yet bound": func(e *env) {
			e.Put(onNode7("pv-new").Class("fast").ClaimedBy(testkit.Claim("log-0")))
		},
		"a claim names a volume that does not exist yet": func(e *env) {
			e.ChangeClaim("log-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Bound("pv-new") })
		},
		"a claim says that it is bound, its volume does not": func(e *env) {
			e.Put(onNode7("pv-new").Class("fast"))
			e.ChangeClaim("log-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Bound("pv-new") })
		},
		"a warning is given, but the claim is not given back": func(e *env) { warn(e, "try again", 5) },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, call := both(t)
				happens(e)
				call.waits()
				<-time.After(25 * time.Second) // beyond two safety checks
				call.waits()
				e.FinishBinding("pv-1")
				e.Provision("log-0", onNode7("pv-new").Class("fast"))
				call.endsAfter(25*time.Second, "")
			})
		})
	}
}

// The PV controller may prefer a volume of its own.
func TestWaitAcceptsAnotherVolumeThatFits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0"), onNode7("pv-1"))
		call := e.call(db0())
		e.Put(onNode7("pv-2").ClaimedBy(testkit.Claim("data-0")))
		e.FinishBinding("pv-2")
		call.endsAfter(0, "")
	})
}

func TestWaitTakesTheProvisionersNewestWarning(t *testing.T) {
	tests := map[string]struct {
		warn func(e *env)
		took time.Duration
		want string
	}{
		"the newest of several": {
			func(e *env) {
				claim := e.Claim("log-0")
				e.Put(
					testkit.Event("a", claim, v1.EventTypeWarning, "ProvisioningFailed", "old", 5),
					testkit.Event("b", claim, v1.EventTypeWarning, "ProvisioningFailed", "new", 7),
					testkit.Event("c", claim, v1.EventTypeNormal, "Provisioning", "no warning", 9),
					testkit.Event("d", testkit.Claim("log-0").WithUID("old").PersistentVolumeClaim, v1.EventTypeWarning, "ProvisioningFailed", "another claim's", 9),
				)
			}, 0, "new",
		},
		"one that is repeated now counts as new": {
			func(e *env) {
				again := testkit.Event("a", e.Claim("log-0"), v1.EventTypeWarning, "ProvisioningFailed", "again", 0)
				again.Series = &v1.EventSeries{Count: 9, LastObservedTime: metaMicro(8)}
				once := testkit.Event("b", e.Claim("log-0"), v1.EventTypeWarning, "ProvisioningFailed", "once", 0)
				once.EventTime = metaMicro(7)
				e.Put(again, once)
			}, 0, "again",
		},
		"one that comes a moment later": {
			func(e *env) { time.AfterFunc(50*time.Millisecond, func() { warn(e, "late", 5) }) }, 75 * time.Millisecond, "late",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, call := both(t)
				tc.warn(e)
				e.ChangeClaim("log-0", unselect)
				call.endsAfter(tc.took, "ProvisioningFailed: claim shop/log-0 (class fast): node-7: ProvisioningFailed: "+tc.want)
			})
		})
	}
	t.Run("none at all", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e, call := both(t)
			e.ChangeClaim("log-0", unselect)
			call.endsSoon("ProvisioningFailed: claim shop/log-0 (class fast): node-7: provisioner csi.example.com gave the claim back (no event says why; see its log)")
		})
	})
}

// Once the cause is gone a new call works: nothing is remembered (S17).
func TestBindWorksAgainAfterProvisioningHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, db0(), testkit.Claim("data-0").Class("fast"))
		call := e.call(db0())
		e.Put(testkit.Event("warning", e.Claim("data-0"), v1.EventTypeWarning, "ProvisioningFailed", "full", 5))
		e.ChangeClaim("data-0", unselect)
		call.ends("ProvisioningFailed: claim shop/data-0 (class fast): node-7: ProvisioningFailed: full")
		call = e.call(db0())
		call.waits()
		e.Provision("data-0", onNode7("pv-new").Class("fast"))
		call.ends("")
		e.wrote("patch persistentvolumeclaims/data-0", "patch persistentvolumeclaims/data-0")
	})
}

func TestWaitThatTimesOutSaysWhatItWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "log-0", "done-0")
		e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"),
			testkit.Claim("done-0").Bound("pv-done"), onNode7("pv-done").ClaimedBy(testkit.Claim("done-0")))
		e.Put(testkit.Event("normal", e.Claim("log-0"), v1.EventTypeNormal, "ExternalProvisioning", "waiting for csi.example.com", 5))
		e.callWithin(pod, time.Minute).endsAfter(time.Minute, "BindTimeout: "+
			"claim shop/data-0 (class local) waits for the PV controller to finish the binding to volume pv-1; "+
			"claim shop/log-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7 (last event: ExternalProvisioning: waiting for csi.example.com); "+
			"volumes.bindTimeout (1m0s) is over")
	})
}

func TestWaitThatTimesOutTellsTheWarningBeforeAnything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("log-0")
		e := start(t, pod, testkit.Claim("log-0").Class("fast"))
		warn(e, "rpc error: pool is degraded", 4)
		e.Put(testkit.Event("normal", e.Claim("log-0"), v1.EventTypeNormal, "ExternalProvisioning", "waiting for csi.example.com", 5))
		e.callWithin(pod, time.Minute).endsAfter(time.Minute, "BindTimeout: claim shop/log-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7 "+
			"(last event: ProvisioningFailed: rpc error: pool is degraded); volumes.bindTimeout (1m0s) is over")
	})
}

func TestWaitThatTimesOutOnANamedVolume(t *testing.T) {
	tests := map[string]struct {
		happens func(e *env)
		want    string
	}{
		"that does not exist": {
			func(*env) {}, "volume pv-new to appear",
		},
		"that is another claim's": {
			func(e *env) { e.Put(onNode7("pv-new").ClaimedByUID("data-0", "old")) },
			"volume pv-new, claimed by claim shop/data-0 (uid old), to be claimed by it",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, db0(), testkit.Claim("data-0").Class("fast"))
				call := e.callWithin(db0(), time.Minute)
				tc.happens(e)
				e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { testkit.ClaimBuilder{PersistentVolumeClaim: c}.Bound("pv-new") })
				call.endsAfter(time.Minute, "BindTimeout: claim shop/data-0 (class fast) waits for "+tc.want+"; volumes.bindTimeout (1m0s) is over")
			})
		})
	}
}

func TestWaitEndsWithItsCause(t *testing.T) {
	tests := map[string]struct {
		cause *fault.Error
		want  string
	}{
		"the caller is gone": {
			fault.New(fault.CallerGone, "the scheduler has hung up"),
			"CallerGone: the scheduler has hung up",
		},
		"the replica is shutting down": {
			fault.New(fault.ShuttingDown, "try again"),
			"ShuttingDown: claim shop/data-0 (class local) waits for the PV controller to finish the binding to volume pv-1; " +
				"claim shop/log-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7; try again",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, call := both(t)
				before := e.Writes()
				call.cancel(tc.cause)
				call.endsAfter(0, tc.want)
				e.wrote(before...)
			})
		})
	}
}
