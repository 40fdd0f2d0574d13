package e2e_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const immediate = storagev1.VolumeBindingImmediate

func TestS10_PodIsOnThisNodeAlready(t *testing.T) {
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("b", class, b))
	f.claim(newClaim("data", class))
	pod := newPod("web", nobody, "data")
	pod.Spec.NodeName = a // assigned by hand: its claim was never bound
	pod = f.pod(pod)

	if text := f.bind(pod, a); text != "" {
		t.Errorf("a repeated bind to the same node: %s", text)
	}
	f.checkRefused(f.bind(pod, b), "PodAssigned", a, b)
	f.untouched("data")
	f.free(pv)
}

func TestS11_PodWasMadeAnewUnderTheSameName(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	f.claim(newClaim("data", class))
	old := f.pod(newPod("web", nobody, "data"))
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "web", metav1.DeleteOptions{}))
	young := f.pod(newPod("web", nobody, "data"))

	text := f.bindAs(extenderv1.ExtenderBindingArgs{PodName: "web", PodNamespace: f.ns, PodUID: old.UID, Node: node})
	f.checkRefused(text, "PodReplaced", string(old.UID), string(young.UID))
	f.free(pv)
	f.mustBind(young, node)
}

func TestS15_ClaimIsBeingProvisionedForANodeThatIsGone(t *testing.T) {
	f := newFixture(t)
	b := f.node("b", nil)
	class := f.class(newClass("slow", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	gone := f.name("gone")
	f.claim(newClaim("data", class, func(c *v1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{volume.AnnSelectedNode: gone}
	}))
	pod := f.pod(newPod("web", nobody, "data"))

	f.refused(pod, gone, "NodeNotFound", gone)
	f.refused(pod, b, "SelectedNodeConflict", "claim "+f.ns+"/data", gone, b)
	if got := f.getClaim("data").Annotations[volume.AnnSelectedNode]; got != gone {
		t.Errorf("selected-node is %q, want it untouched (%s)", got, gone)
	}
}

func TestS22_HostnameLabelIsNotTheNodeName(t *testing.T) {
	f := newFixture(t)
	host := f.name("n1")
	node := f.node("n1.example", map[string]string{v1.LabelHostname: host})
	class := f.class(newLocalClass("local"))
	wrong := f.volume(newVolume("fqdn", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "NoVolume", "node(s) didn't find available persistent volumes to bind")
	f.free(wrong)

	right := f.volume(newVolume("short", class, host))
	f.mustBind(pod, node)
	if got := f.getClaim("data").Spec.VolumeName; got != right.Name {
		t.Errorf("claim is bound to %s, want %s", got, right.Name)
	}
}

func TestS26_ImmediateAndDelayedClaimsInOnePod(t *testing.T) {
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	local := f.class(newLocalClass("local"))
	now := f.class(newClass("now", volume.NotSupportedProvisioner, immediate))
	f.volume(newVolume("now-a", now, a))
	onA, onB := f.volume(newVolume("local-a", local, a)), f.volume(newVolume("local-b", local, b))
	f.claim(newClaim("at-once", now))
	f.claim(newClaim("later", local))
	f.eventually("the immediate claim is bound", func() bool { return f.getClaim("at-once").Status.Phase == v1.ClaimBound })
	pod := f.pod(newPod("web", nobody, "at-once", "later"))

	f.refused(pod, b, "NodeConflict", "at-once", "node(s) didn't match PersistentVolume's node affinity")
	f.untouched("later")
	f.free(onA, onB)
	f.mustBind(pod, a)

	f.claim(newClaim("unbound", now)) // no volume is left for it
	f.claim(newClaim("later-too", local))
	second := f.pod(newPod("second", nobody, "later-too", "unbound"))
	f.refused(second, b, "ClaimUnbound", "unbound", "pod has unbound immediate PersistentVolumeClaims")
	f.untouched("later-too", "unbound")
	f.free(onB)
}

func TestS27_ReleasedVolumeOfADeletedClaim(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	claimRef := func(uid string) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: f.ns, Name: "data", UID: types.UID(uid)}
		}
	}
	old := f.volume(newVolume("old", class, node, claimRef("00000000-0000-0000-0000-000000000001")))
	if old.Status.Phase != v1.VolumeReleased {
		t.Fatalf("the volume of a claim that is gone is %s", old.Status.Phase)
	}
	claim := f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "NoVolume")
	if got := f.getVolume(old.Name); got.ResourceVersion != old.ResourceVersion {
		t.Error("the released volume was written")
	}

	// An administrator removes the uid: the volume is pre-bound again.
	patch := []byte(`{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}`)
	_, err := f.client.CoreV1().PersistentVolumes().Patch(f.ctx, old.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	f.must(err)
	f.mustBind(pod, node)
	if got := f.getVolume(old.Name).Spec.ClaimRef.UID; got != claim.UID {
		t.Errorf("claimRef.uid = %s, want %s", got, claim.UID)
	}
}

func TestMatching(t *testing.T) {
	block := v1.PersistentVolumeBlock
	modes := func(modes ...v1.PersistentVolumeAccessMode) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }
	}
	wants := func(modes ...v1.PersistentVolumeAccessMode) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = modes }
	}
	type pvs map[string]func(*v1.PersistentVolume)
	tests := map[string]struct {
		volumes pvs
		claim   func(*v1.PersistentVolumeClaim)
		want    string // short name of the volume; "" for none
	}{
		"S31 an RWX volume is no match for RWO":       {pvs{"rwx": modes(v1.ReadWriteMany)}, wants(v1.ReadWriteOnce), ""},
		"S31 more modes than asked for match":         {pvs{"rwx": modes(v1.ReadWriteMany), "both": modes(v1.ReadWriteOnce, v1.ReadOnlyMany)}, wants(v1.ReadWriteOnce), "both"},
		"S31 fewer modes than asked for do not":       {pvs{"rwo": modes(v1.ReadWriteOnce)}, wants(v1.ReadWriteOnce, v1.ReadOnlyMany), ""},
		"S32 a Block claim takes only a Block volume": {pvs{"file": nil, "block": func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block }}, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, "block"},
		"S32 no Block volume, no match":               {pvs{"file": nil}, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, ""},
		"the smallest that fits is taken":             {pvs{"large": capacity("10Gi"), "small": capacity("2Gi"), "tiny": capacity("1Mi")}, nil, "small"},
		"an odd quantity is compared by value":        {pvs{"exact": capacity("1073741824")}, nil, "exact"},
		"a selector must match the volume's labels": {pvs{"plain": nil, "gold": func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"tier": "gold"} }}, func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		}, "gold"},
		"a volume of another class is no match": {pvs{"other": func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "other" }}, nil, ""},
		"a volume claimed by another claim is no match": {pvs{"taken": func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "somebody"}
		}}, nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			var made []*v1.PersistentVolume
			for short, option := range tc.volumes {
				pv := newVolume(short, class, node)
				if option != nil {
					option(pv)
				}
				made = append(made, f.volume(pv))
			}
			claim := newClaim("data", class)
			if tc.claim != nil {
				tc.claim(claim)
			}
			f.claim(claim)
			pod := f.pod(newPod("web", nobody, "data"))
			if tc.want == "" {
				f.refused(pod, node, "NoVolume", "claim "+f.ns+"/data")
				for _, pv := range made {
					if now := f.getVolume(pv.Name); now.ResourceVersion != pv.ResourceVersion {
						t.Errorf("volume %s was written", pv.Name)
					}
				}
				return
			}
			f.mustBind(pod, node)
			if got := f.getClaim("data").Spec.VolumeName; got != f.name(tc.want) {
				t.Errorf("bound to %s, want %s", got, f.name(tc.want))
			}
		})
	}
}

func TestS33_ClaimsWithoutAClass(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.class(newLocalClass("local"))
	f.volume(newVolume("a", local, node))
	none := ""
	f.claim(newClaim("empty", "", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = &none }))
	f.claim(newClaim("absent", "", func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	f.claim(newClaim("annotated", "", func(c *v1.PersistentVolumeClaim) {
		c.Spec.StorageClassName = nil
		c.Annotations = map[string]string{v1.BetaStorageClassAnnotation: local}
	}))
	for _, name := range []string{"empty", "absent"} {
		f.refused(f.pod(newPod("with-"+name, nobody, name)), node, "ClaimUnbound", "claim "+f.ns+"/"+name, "no class")
	}
	f.untouched("empty", "absent")
	f.mustBind(f.pod(newPod("with-annotated", nobody, "annotated")), node)
}

func TestS37_EphemeralClaims(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("a", class, node))

	f.claim(newClaim("web-scratch", class)) // somebody else's, of the same name
	web := f.pod(withEphemeral(newPod("web", nobody), "scratch", class))
	f.refused(web, node, "ClaimNotOwned", "web-scratch", "pod is not owner")
	f.untouched("web-scratch")

	// The controller makes the claim; then it is like any other.
	good := f.pod(withEphemeral(newPod("good", nobody), "scratch", class))
	f.eventually("the claim of the ephemeral volume exists", func() bool {
		_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Get(f.ctx, "good-scratch", metav1.GetOptions{})
		return err == nil
	})
	f.mustBind(good, node)
}

func TestS50_NodeWithoutTheDriver(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil) // no CSINode
	class := f.class(newClass("csi", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer, failing(1000, "no topology key found")))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "ProvisioningFailed", "claim "+f.ns+"/data", "no topology key found")
}

func TestS53_ClassIsMissing(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := newLocalClass("late")
	f.claim(newClaim("data", f.name("late")))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "ClaimUnbound", f.name("late"), "not found")
	f.untouched("data")
	f.class(class)
	f.volume(newVolume("a", class.Name, node))
	f.mustBind(pod, node)

	// A bound claim needs its class no more.
	f.must(f.client.StorageV1().StorageClasses().Delete(f.ctx, class.Name, metav1.DeleteOptions{}))
	f.mustBind(f.pod(newPod("second", nobody, "data")), node)
}

func TestUnknownObjects(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	pod := f.pod(newPod("web", nobody, "missing"))
	f.refused(pod, node, "ClaimNotFound", "claim "+f.ns+"/missing", "not found")
	f.refused(pod, f.name("nowhere"), "NodeNotFound", f.name("nowhere"))
	text := f.bindAs(extenderv1.ExtenderBindingArgs{PodName: "nobody", PodNamespace: f.ns, PodUID: "1", Node: node})
	f.checkRefused(text, "PodNotFound", f.ns+"/nobody")

	gated := newPod("gated", nobody)
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
	f.refused(f.pod(gated), node, "PodGated", "example.com/quota")
}
