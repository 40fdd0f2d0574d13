package e2e_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/test/build"
)

func noClass(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }

func onePodClaim(c *v1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
}

func onePodVolume(pv *v1.PersistentVolume) {
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
}

func emptyClass(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }

// S33: what a claim's class is when it is not simply in the field. A volume
// without a class is within reach of every test's claims without a class; that
// it is ReadWriteOncePod keeps it for this one.
func TestS33_EffectiveClass(t *testing.T) {
	t.Parallel()
	annotatedAs := func(class string) pvcOption {
		return func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{v1.BetaStorageClassAnnotation: class}
		}
	}
	tests := map[string]struct {
		claim pvcOption
		// annotation names the class of the beta annotation: "" for none.
		annotation string
		want       string // "" for none
	}{
		"the annotation beats a field that names another class": {func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("other") }, "local", "of-class"},
		"the annotation beats an empty field":                   {emptyClass, "local", "of-class"},
		"the annotation alone":                                  {noClass, "local", "of-class"},
		"the annotation names another class than the field":     {nil, "other", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("of-class", class, node, onePodVolume))
			none := f.volume(newVolume("of-none", "", node, onePodVolume))
			claim := newClaim("data", class, annotatedAs(f.name(tc.annotation)), onePodClaim)
			if tc.claim != nil {
				tc.claim(claim)
			}
			f.claim(claim)
			pod := f.pod(newPod("web", nobody, "data"))
			if tc.want == "" {
				f.refuses(pod, node, "ClaimUnbound", f.name(tc.annotation), "not found")
			} else {
				f.binds(pod, node)
				f.boundTo("data", tc.want)
			}
			f.free(none)
		})
	}
}

// A claim of no class is for the PV controller, with a volume of no class.
func TestS33_EmptyClassIsBoundByThePVController(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	local := f.volume(newVolume("of-class", f.class(newLocalClass("local")), node))
	f.claim(newClaim("data", "", emptyClass))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refuses(pod, node, "ClaimUnbound", "claim "+f.ns+"/data", "no class")
	f.volume(newVolume("of-none", "", node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = f.claimRef("data", "") }))
	f.awaitBound("data")
	f.binds(pod, node)
	f.boundTo("data", "of-none")
	f.free(local)
}

// This test is alone: a default class is everybody's.
func TestS33_ClusterWithADefaultClass(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	f.claim(newClaim("before", "", noClass))
	older := f.pod(newPod("before", nobody, "before"))
	f.refuses(older, node, "ClaimUnbound", "claim "+f.ns+"/before", "no class")
	if class := f.getClaim("before").Spec.StorageClassName; class != nil {
		t.Errorf("the class of claim before is %q: prebind applies no default", *class)
	}

	class := newLocalClass("default")
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	f.class(class)
	none := f.volume(newVolume("of-none", "", node, onePodVolume))
	f.eventually("admission fills in the default", func() bool {
		claim := f.claim(newClaim("", "", noClass, func(c *v1.PersistentVolumeClaim) { c.GenerateName = "probe-" }))
		return claim.Spec.StorageClassName != nil
	})
	f.claim(newClaim("after", "", noClass))
	f.claim(newClaim("none", "", emptyClass))
	younger := f.pod(newPod("after", nobody, "after"))
	before := f.snapshot() // the PV controller gives claim before its class meanwhile
	f.refused(younger, node, "NoVolume", "claim "+f.ns+"/after (class "+class.Name+")")
	f.refused(f.pod(newPod("none", nobody, "none")), node, "ClaimUnbound", "claim "+f.ns+"/none", "no class")
	before.unwritten()
	f.volume(newVolume("of-class", class.Name, node))
	f.mustBind(younger, node)
	f.boundTo("after", "of-class")

	// The PV controller gives the default to the claim that came before it.
	f.eventually("claim before has the class", func() bool {
		f.patchClaim("before", labelled("look", "again"))
		return f.getClaim("before").Spec.StorageClassName != nil
	})
	f.volume(newVolume("second", class.Name, node))
	f.bindsInTheEnd(older, node, "ClaimUnbound", "NoVolume")
	f.free(none)
}

// S26 (b): the pod waits for the PV controller, and works once that is done.
func TestS26_ImmediateClaimIsBoundInTheEnd(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"its volume is made by hand": build.NoProvisioner, "its volume is provisioned": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			provisioner := kind
			if provisioner == "" {
				provisioner = f.name("late")
			}
			local, now := f.class(newLocalClass("local")), f.class(newClass("now", provisioner, immediate))
			pv := f.volume(newVolume("local", local, node))
			f.claim(newClaim("later", local))
			f.claim(newClaim("at-once", now))
			pod := f.pod(newPod("web", nobody, "later", "at-once"))
			f.refuses(pod, node, "ClaimUnbound", "claim "+f.ns+"/at-once", "pod has unbound immediate PersistentVolumeClaims")
			f.untouched("later", "at-once")
			f.free(pv)
			if kind == build.NoProvisioner {
				f.volume(newVolume("now", now, node, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = f.claimRef("at-once", "") }))
			} else {
				f.serve(provisioner)
			}
			f.awaitBound("at-once")
			f.binds(pod, node)
			if got := f.selectedNode("at-once"); got != "" {
				t.Errorf("selected-node %s was written for an immediate claim", got)
			}
		})
	}
}

// S53: a class that is missing is only missed by claims that are not bound.
func TestS53_BoundAndUnboundClaimOfAMissingClass(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("one", class, node))
	spare := f.volume(newVolume("two", class, node, capacity("5Gi")))
	f.claim(newClaim("bound", class))
	f.mustBind(f.pod(newPod("first", nobody, "bound")), node)
	f.removeClass(class)
	f.binds(f.pod(newPod("second", nobody, "bound")), node)
	late := newClass("late", build.NoProvisioner, waits)
	f.claim(newClaim("unbound", f.name(late.Name)))
	both := f.pod(newPod("third", nobody, "bound", "unbound"))
	f.refuses(both, node, "ClaimUnbound", "claim "+f.ns+"/unbound", f.name(late.Name), "not found")
	f.free(spare)
	f.class(late)
	f.volume(newVolume("three", late.Name, node))
	f.bindsInTheEnd(both, node, "ClaimUnbound")
}
