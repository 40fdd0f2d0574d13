package e2e_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// held is a bind call that is held at one stage while its objects are
// disturbed: pod "web" with claim "data", for the node.
type held struct {
	*fixture
	pod   *v1.Pod
	claim *v1.PersistentVolumeClaim
	node  string
	class string
	call  <-chan string // its answer
	// release lets the call go on to its good end.
	release func()
}

// stages bring a call to where it is held.
const (
	provisioning = "while a provisioner is at work" // selected-node is written
	halfBound    = "while a claim is half bound"    // claimRef is written, the PV controller stands still
	partlyBound  = "while another claim is waited for"
)

// holdProvisioning waits for a provisioner that never comes.
func holdProvisioning(f *fixture) *held {
	f.t.Helper()
	h := &held{fixture: f, node: f.node("a", nil)}
	h.pod, h.call = waitingFor(f, h.node)
	h.claim = f.getClaim("data")
	h.class = *h.claim.Spec.StorageClassName
	h.release = func() { provisionByHand(f, h.node) }
	return h
}

// holdHalfBound halts the controllers after the claimRef is written.
func holdHalfBound(f *fixture) *held {
	f.t.Helper()
	h := &held{fixture: f, node: f.node("a", nil)}
	h.class = f.class(newLocalClass("local"))
	pv := f.volume(newVolume("pv", h.class, h.node))
	h.claim = f.claim(newClaim("data", h.class))
	h.pod = f.pod(newPod("web", nobody, "data"))
	h.release = shared.freezeControllers(f.t)
	h.call = f.start(h.pod, h.node)
	f.eventually("claimRef is written", func() bool { return f.getVolume(pv.Name).Spec.ClaimRef != nil })
	return h
}

// holdPartlyBound binds claim "data" and waits for claim "slow".
func holdPartlyBound(f *fixture) *held {
	f.t.Helper()
	h := &held{fixture: f, node: f.node("a", nil)}
	h.class = f.class(newLocalClass("local"))
	never := f.class(newClass("never", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	f.volume(newVolume("pv", h.class, h.node))
	h.claim = f.claim(newClaim("data", h.class))
	f.claim(newClaim("slow", never))
	h.pod = f.pod(newPod("web", nobody, "data", "slow"))
	h.call = f.start(h.pod, h.node)
	f.eventually("claim data is bound", func() bool {
		return f.getClaim("data").Status.Phase == v1.ClaimBound && f.selectedNode("slow") == h.node
	})
	h.release = func() {
		slow := f.getClaim("slow")
		f.volume(newVolume("slow", never, h.node, func(pv *v1.PersistentVolume) {
			pv.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: "nobody.example/none"}
			pv.Spec.ClaimRef = f.claimRef("slow", slow.UID)
		}))
	}
	return h
}

// disturbance is what somebody does to an object during the call. want has,
// by stage, the codes with which the call may end: "" is success once the call
// goes on. A stage that is not in want is not tried.
type disturbance struct {
	do   func(h *held)
	want map[string][]string
}

// goesOn is the want of a disturbance that must not matter.
func goesOn() map[string][]string {
	return map[string][]string{provisioning: {""}, halfBound: {""}, partlyBound: {""}}
}

// endsWith is the want of a disturbance that ends every call.
func endsWith(codes ...string) map[string][]string {
	return map[string][]string{provisioning: codes, halfBound: codes, partlyBound: codes}
}

func runDisturbed(t *testing.T, tests map[string]disturbance) {
	t.Helper()
	for stage, hold := range map[string]func(*fixture) *held{
		provisioning: holdProvisioning, halfBound: holdHalfBound, partlyBound: holdPartlyBound,
	} {
		t.Run(stage, func(t *testing.T) {
			for name, d := range tests {
				if want, ok := d.want[stage]; ok {
					t.Run(name, func(t *testing.T) {
						if stage != halfBound { // which halts what the others need
							t.Parallel()
						}
						disturb(hold(newFixture(t)), d.do, want)
					})
				}
			}
		})
	}
}

func disturb(h *held, do func(*held), want []string) {
	h.t.Helper()
	do(h)
	after := h.snapshot()
	if slices.Contains(want, "") {
		h.release()
	}
	text := h.answer(h.call)
	if text == "" && slices.Contains(want, "") {
		h.checkBound(h.pod, h.node)
		after.intact()
		return
	}
	h.endedWith(text, want...)
	h.checkLeftAlone()
	after.intact()
}

// checkLeftAlone checks what must hold after a call that has failed: no pod of
// the name is bound by it, and what was written for it is not taken back.
func (h *held) checkLeftAlone() {
	h.t.Helper()
	pods, err := h.client.CoreV1().Pods(h.ns).List(h.ctx, metav1.ListOptions{})
	h.must(err)
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == h.node {
			h.t.Errorf("pod %s (uid %s) is on node %s after a failure", pod.Name, pod.UID, pod.Spec.NodeName)
		}
	}
	claims, err := h.client.CoreV1().PersistentVolumeClaims(h.ns).List(h.ctx, metav1.ListOptions{})
	h.must(err)
	for _, claim := range claims.Items {
		selected, asked := claim.Annotations[volume.AnnSelectedNode]
		if asked && selected != h.node && selected != "elsewhere" {
			h.t.Errorf("claim %s: selected-node was moved to %s", claim.Name, selected)
		}
		if claim.Name == "data" && claim.UID != h.claim.UID && (asked || written(&claim.ObjectMeta) != "") {
			h.t.Errorf("claim %s was made anew, and written for the old one's pod", claim.Name)
		}
	}
}

func TestPodIsDisturbedDuringTheCall(t *testing.T) {
	runDisturbed(t, map[string]disturbance{
		"S12 the pod is deleted":                    {func(h *held) { h.removePod("web") }, endsWith("PodTerminating", "PodNotFound")},
		"S12 the pod is marked for deletion":        {func(h *held) { h.markPodForDeletion("web") }, endsWith("PodTerminating")},
		"S11 the pod is made anew, same name":       {func(h *held) { h.removePod("web"); h.fixture.pod(newPod("web", nobody, "data")) }, endsWith("PodTerminating", "PodNotFound", "PodReplaced")},
		"S11 the pod is made anew without claims":   {func(h *held) { h.removePod("web"); h.fixture.pod(newPod("web", nobody)) }, endsWith("PodTerminating", "PodNotFound", "PodReplaced")},
		"S10 another scheduler takes it elsewhere":  {func(h *held) { h.bindByHand(h.pod, h.fixture.node("other", nil)) }, endsWith("PodAssigned")},
		"S10 another scheduler takes it here":       {func(h *held) { h.bindByHand(h.pod, h.node) }, goesOn()},
		"the pod is labelled and annotated":         {func(h *held) { h.patchPod("web", labelled("a", "b")); h.patchPod("web", annotated("a", "b")) }, goesOn()},
		"a pod of the same name elsewhere goes":     {func(h *held) { other := newFixture(h.t); other.pod(newPod("web", nobody)); other.removePod("web") }, map[string][]string{provisioning: {""}, partlyBound: {""}}},
		"a second pod with the same claim is added": {func(h *held) { h.fixture.pod(newPod("second", nobody, "data")) }, goesOn()},
	})
}

func TestNodeIsDisturbedDuringTheCall(t *testing.T) {
	again := func(h *held, host string) {
		h.removeNode(h.node)
		labels := map[string]string{v1.LabelHostname: host}
		h.fixture.node("a", labels)
	}
	runDisturbed(t, map[string]disturbance{
		"S15 the node is deleted":          {func(h *held) { h.removeNode(h.node) }, endsWith("NodeNotFound")},
		"the node is made anew as it was":  {func(h *held) { again(h, h.node) }, map[string][]string{provisioning: {"", "NodeNotFound"}, halfBound: {"", "NodeNotFound"}, partlyBound: {"", "NodeNotFound"}}},
		"the node is made anew, unfit":     {func(h *held) { again(h, "elsewhere") }, map[string][]string{halfBound: {"NodeConflict", "NodeNotFound"}, partlyBound: {"NodeConflict", "NodeNotFound"}}},
		"the node is relabelled, unfit":    {func(h *held) { h.patchNode(h.node, labelled(v1.LabelHostname, "elsewhere")) }, map[string][]string{halfBound: {"NodeConflict"}, partlyBound: {"NodeConflict"}}},
		"the node loses its hostname":      {func(h *held) { h.patchNode(h.node, labelled(v1.LabelHostname, nil)) }, map[string][]string{halfBound: {"NodeConflict"}, partlyBound: {"NodeConflict"}}},
		"the node gets one more label":     {func(h *held) { h.patchNode(h.node, labelled("rack", "7")) }, goesOn()},
		"the node is cordoned":             {func(h *held) { h.patchNode(h.node, object{"spec": object{"unschedulable": true}}) }, goesOn()},
		"the node is tainted":              {taint, goesOn()},
		"the node's CSINode comes":         {func(h *held) { h.csiNode(h.node) }, goesOn()},
		"another node is deleted":          {func(h *held) { h.removeNode(h.fixture.node("other", nil)) }, goesOn()},
		"the volume comes for a moved one": {func(h *held) { h.patchNode(h.node, labelled(v1.LabelHostname, "elsewhere")); h.release() }, map[string][]string{provisioning: {"NodeConflict"}}},
	})
}

func taint(h *held) {
	h.patchNode(h.node, object{"spec": object{"taints": []v1.Taint{{Key: "example.com/down", Effect: v1.TaintEffectNoSchedule}}}})
}

func TestClaimIsDisturbedDuringTheCall(t *testing.T) {
	again := func(h *held) {
		h.removeClaim("data")
		h.fixture.claim(newClaim("data", h.class))
	}
	runDisturbed(t, map[string]disturbance{
		"the claim is deleted":             {func(h *held) { h.removeClaim("data") }, endsWith("ClaimTerminating", "ClaimNotFound")},
		"the claim is marked for deletion": {func(h *held) { h.markClaimForDeletion("data") }, endsWith("ClaimTerminating")},
		"the claim is made anew":           {again, endsWith("ClaimTerminating", "ClaimNotFound", "ClaimReplaced")},
		"S03 the claim is labelled":        {func(h *held) { h.patchClaim("data", labelled("team", "db")) }, goesOn()},
		"another claim is deleted":         {func(h *held) { h.fixture.claim(newClaim("data-0", h.class)); h.removeClaim("data-0") }, goesOn()},
		"its class is deleted":             {func(h *held) { h.removeClass(h.class) }, goesOn()},
		"its class is made anew, immediate": {func(h *held) {
			h.removeClass(h.class)
			_, err := h.client.StorageV1().StorageClasses().Create(h.ctx, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: h.class}, Provisioner: volume.NotSupportedProvisioner, VolumeBindingMode: new(immediate),
			}, metav1.CreateOptions{})
			h.must(err)
		}, map[string][]string{halfBound: {""}, partlyBound: {""}}},
		"S17 selected-node is removed": {func(h *held) { h.patchClaim("data", annotated(volume.AnnSelectedNode, nil)) }, map[string][]string{provisioning: {"ProvisioningFailed"}}},
		"selected-node is changed":     {func(h *held) { h.patchClaim("data", annotated(volume.AnnSelectedNode, "elsewhere")) }, map[string][]string{provisioning: {"SelectedNodeConflict"}}},
		"an administrator pre-binds a volume to it": {func(h *held) {
			h.volumeNoWait(newVolume("given", h.class, h.node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = h.claimRef("data", "") }))
		}, map[string][]string{provisioning: {""}}},
		"an administrator pre-binds a volume elsewhere": {func(h *held) {
			h.volumeNoWait(newVolume("given", h.class, "elsewhere", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = h.claimRef("data", "") }))
		}, map[string][]string{provisioning: {"NodeConflict"}}},
	})
}

func TestVolumeIsDisturbedDuringTheCall(t *testing.T) {
	name := func(h *held) string { return h.name("pv") }
	again := func(ref func(h *held) *v1.ObjectReference) func(h *held) {
		return func(h *held) {
			h.removeVolume(name(h))
			h.volumeNoWait(newVolume("pv", h.class, h.node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = ref(h) }))
		}
	}
	both := func(codes ...string) map[string][]string {
		return map[string][]string{halfBound: codes, partlyBound: codes}
	}
	half := func(codes ...string) map[string][]string { return map[string][]string{halfBound: codes} }
	claimRef := func(value any) object { return object{"spec": object{"claimRef": value}} }
	runDisturbed(t, map[string]disturbance{
		"S05 claimRef is removed":              {func(h *held) { h.patchVolume(name(h), claimRef(nil)) }, half("ClaimRefReset")},
		"S05 the uid is removed from claimRef": {func(h *held) { h.patchVolume(name(h), claimRef(object{"uid": nil})) }, half("ClaimRefReset")},
		"S05 claimRef is given to another":     {func(h *held) { h.patchVolume(name(h), claimRef(object{"name": "other", "uid": "7"})) }, half("ClaimRefReset")},
		"the volume is deleted":                {func(h *held) { h.removeVolume(name(h)) }, both("ClaimRefReset", "VolumeNotFound", "ClaimLost")},
		"the volume is made anew, free":        {again(func(*held) *v1.ObjectReference { return nil }), half("ClaimRefReset")},
		"the volume is made anew, another's": {again(func(*held) *v1.ObjectReference {
			return &v1.ObjectReference{Namespace: "elsewhere", Name: "data", UID: "7"}
		}), both("ClaimRefReset", "VolumeNotFound", "ClaimLost")},
		"the volume is made anew, for us":   {again(func(h *held) *v1.ObjectReference { return h.claimRef("data", h.claim.UID) }), half("", "ClaimRefReset")},
		"the volume is labelled":            {func(h *held) { h.patchVolume(name(h), labelled("rack", "7")) }, both("")},
		"the bound volume is to be deleted": {func(h *held) { h.markVolumeForDeletion(name(h)) }, map[string][]string{partlyBound: {""}}},
		"a better volume comes":             {func(h *held) { h.volumeNoWait(newVolume("better", h.class, h.node, capacity("1Gi"))) }, both("")},
		"the volume's reclaim policy is edited": {func(h *held) {
			h.patchVolume(name(h), object{"spec": object{"persistentVolumeReclaimPolicy": "Delete"}})
		}, both("")},
	})
}
