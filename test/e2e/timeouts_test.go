package e2e_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// Waits that nothing can end but the time-out: the answer names the claim and
// what it waits for, the pod is not bound, and asking again writes nothing.
func TestWaitsThatTimeOut(t *testing.T) {
	short := shared.startPrebind(t, controlplane.PrebindOptions{Name: "timeouts", BindTimeout: 2 * time.Second})
	tests := map[string]struct {
		make  func(f *fixture, node string) *v1.Pod
		words []string
	}{
		"S32 the volume that comes has the wrong mode": {func(f *fixture, node string) *v1.Pod {
			class := f.class(newClass("never", "nobody.example/none", waits))
			claim := f.claim(newClaim("data", class, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(v1.PersistentVolumeBlock) }))
			f.volumeNoWait(newVolume("file", class, node, func(pv *v1.PersistentVolume) {
				pv.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: "nobody.example/none"}
				pv.Spec.ClaimRef = f.claimRef("data", claim.UID)
			}))
			return newPod("web", nobody, "data")
		}, []string{"nobody.example/none"}},
		"S50 the driver is not on the node": {func(f *fixture, node string) *v1.Pod {
			f.csiNode(node) // without the driver
			f.claim(newClaim("data", f.class(newClass("csi", "csi.example", waits))))
			return newPod("web", nobody, "data")
		}, []string{"csi.example"}},
		"S17 the provisioner fails and keeps the node": {func(f *fixture, _ string) *v1.Pod {
			f.claim(newClaim("data", f.dynamic("d", params(provisioner.Failures, "1000", provisioner.FailureState, provisioner.Background, provisioner.FailureMessage, "pool is degraded"))))
			return newPod("web", nobody, "data")
		}, []string{shared.disks.Name()}},
		"one of two claims is bound": {func(f *fixture, node string) *v1.Pod {
			local := f.class(newLocalClass("local"))
			f.volume(newVolume("pv", local, node))
			f.claim(newClaim("quick", local))
			f.claim(newClaim("data", f.class(newClass("never", "nobody.example/none", waits))))
			return newPod("web", nobody, "quick", "data")
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			pod := f.pod(tc.make(f, node))
			f.checkRefused(f.bindBy(short, pod, node), "BindTimeout", append(tc.words, "claim "+f.ns+"/data (class ", node, "2s")...)
			before := f.snapshot()
			f.checkRefused(f.bindBy(short, pod, node), "BindTimeout", "claim "+f.ns+"/data")
			before.unwritten()
			if got := f.getPod("web").Spec.NodeName; got != "" {
				t.Errorf("the pod is on node %s", got)
			}
			if claim := f.getClaim("data"); claim.Annotations[volume.AnnBindCompleted] != "" {
				t.Errorf("claim data is bound to %s", claim.Spec.VolumeName)
			}
			f.removeClaim("data") // or its provisioner tries for ever
		})
	}
}

// S50: no CSINode at all, and one without the driver; both are no obstacle to
// what has a volume already, and the provisioner's word is passed on.
func TestS50_NodesThatDoNotHaveTheDriver(t *testing.T) {
	t.Parallel()
	for name, csiNode := range map[string]bool{"no CSINode": false, "a CSINode without the driver": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			if csiNode {
				f.csiNode(node)
			}
			net := f.class(newLocalClass("net"))
			f.volume(newVolume("net", net, "", func(pv *v1.PersistentVolume) {
				pv.Spec.NodeAffinity = nil
				pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "1"}}
			}))
			f.claim(newClaim("static", net))
			f.claim(newClaim("data", f.dynamic("csi", failing(1, "no topology key found on CSINode"))))
			f.binds(f.pod(newPod("first", nobody, "static")), node)
			f.refused(f.pod(newPod("web", nobody, "static", "data")), node, "ProvisioningFailed", "claim "+f.ns+"/data", node, "no topology key found on CSINode")
		})
	}
}
