package volumes_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// TestMakePlanKeepsItsPromises tries pods of every kind in clusters of every
// kind. A plan, if there is one, has every claim once and no volume twice, and
// each volume is one that the claim may have on the node.
func TestMakePlanKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t)
		before := copyFacts(facts)
		plan, err := volumes.MakePlan(facts)
		if diff := cmp.Diff(before, facts); diff != "" {
			t.Fatalf("the facts were changed (-before +after):\n%s", diff)
		}
		again, errAgain := volumes.MakePlan(facts)
		if diff := cmp.Diff([]any{show(plan), text(err)}, []any{show(again), text(errAgain)}); diff != "" {
			t.Fatalf("the same facts make two plans (-first +second):\n%s", diff)
		}
		if err != nil {
			if plan != nil || fault.CodeOf(err) == fault.Internal {
				t.Fatalf("plan %v, error %v", show(plan), err)
			}
			return
		}
		checkPlan(t, facts, plan)
	})
}

func checkPlan(t *rapid.T, facts *volumes.Facts, plan *volumes.Plan) {
	claims, taken := map[string]int{}, map[string]string{}
	for kind, bindings := range map[string][]volumes.Binding{
		"bound": plan.Bound, "completing": plan.Completing, "static": plan.Static, "dynamic": plan.Dynamic,
	} {
		for _, b := range bindings {
			claims[b.Claim.Name]++
			if kind == "dynamic" {
				checkDynamic(t, facts, b)
				continue
			}
			if other, ok := taken[b.Volume.Name]; ok {
				t.Fatalf("volume %s is for %s and for %s", b.Volume.Name, other, b.Claim.Name)
			}
			taken[b.Volume.Name] = b.Claim.Name
			checkVolume(t, facts, kind, b)
		}
	}
	for _, c := range facts.Claims {
		if claims[c.Name] != 1 {
			t.Fatalf("claim %s is in the plan %d times", c.Name, claims[c.Name])
		}
	}
}

func checkVolume(t *rapid.T, facts *volumes.Facts, kind string, b volumes.Binding) {
	if err := volume.CheckNodeAffinity(b.Volume, facts.Node.Labels); err != nil {
		t.Fatalf("%s: volume %s is not reachable: %v", b.Claim.Name, b.Volume.Name, err)
	}
	ref := b.Volume.Spec.ClaimRef
	if kind != "static" {
		if ref == nil || ref.UID != b.Claim.UID || b.Claim.Spec.VolumeName != b.Volume.Name {
			t.Fatalf("%s counts as %s with volume %s of %v", b.Claim.Name, kind, b.Volume.Name, ref)
		}
		return
	}
	if ref != nil && (ref.Name != b.Claim.Name || (ref.UID != "" && ref.UID != b.Claim.UID)) {
		t.Fatalf("%s would take volume %s of %v", b.Claim.Name, b.Volume.Name, ref)
	}
	has, wants := b.Volume.Spec.Capacity[v1.ResourceStorage], b.Claim.Spec.Resources.Requests[v1.ResourceStorage]
	if has.Cmp(wants) < 0 || b.Volume.DeletionTimestamp != nil || (ref == nil && b.Volume.Status.Phase != v1.VolumeAvailable) {
		t.Fatalf("%s (%s) would take volume %v", b.Claim.Name, wants.String(), b.Volume)
	}
	if selected, asked := b.Claim.Annotations[volume.AnnSelectedNode]; asked {
		t.Fatalf("%s is being provisioned for %s and would take volume %s", b.Claim.Name, selected, b.Volume.Name)
	}
}

func checkDynamic(t *rapid.T, facts *volumes.Facts, b volumes.Binding) {
	if b.Provisioner == "" || b.Provisioner == volume.NotSupportedProvisioner {
		t.Fatalf("%s would be provisioned by %q", b.Claim.Name, b.Provisioner)
	}
	if selected, asked := b.Claim.Annotations[volume.AnnSelectedNode]; asked && selected != facts.Node.Name {
		t.Fatalf("%s would be moved from node %s", b.Claim.Name, selected)
	}
}

func drawFacts(t *rapid.T) *volumes.Facts {
	classes := map[string]testkit.ClassBuilder{
		"local": testkit.Class("local"), "fast": testkit.Class("fast").Provisions("csi.example.com"),
		"now": testkit.Class("now").Immediate(),
	}
	pvs := make([]testkit.VolumeBuilder, rapid.IntRange(0, 12).Draw(t, "volumes"))
	for i := range pvs {
		pvs[i] = drawVolume(t, fmt.Sprintf("pv-%d", i))
	}
	facts := &volumes.Facts{Pod: testkit.Pod("db-0").Pod, Node: planNode().Node}
	for i := range rapid.IntRange(1, 5).Draw(t, "claims") {
		claim, own := drawClaim(t, fmt.Sprintf("c-%d", i))
		f := of(claim)
		for _, pv := range append(own, pvs...) {
			if pv.Name == claim.Spec.VolumeName {
				f = f.volume(pv)
			}
			if pv.Spec.StorageClassName == *claim.Spec.StorageClassName {
				f = f.among(pv)
			}
		}
		if class, ok := classes[*claim.Spec.StorageClassName]; ok {
			f = f.class(class)
		}
		facts.Claims = append(facts.Claims, f.ClaimFacts)
	}
	return facts
}

func drawVolume(t *rapid.T, name string) testkit.VolumeBuilder {
	pv := testkit.Volume(name).
		Class(rapid.SampledFrom([]string{"local", "local", "fast"}).Draw(t, "class")).
		Size(rapid.SampledFrom([]string{"1Gi", "5Gi", "10Gi", "20Gi"}).Draw(t, "size"))
	if host := rapid.SampledFrom([]string{"", hostname, hostname, "n2"}).Draw(t, "host"); host != "" {
		pv.OnHost(host)
	}
	claim := fmt.Sprintf("c-%d", rapid.IntRange(0, 4).Draw(t, "ref"))
	switch rapid.IntRange(0, 9).Draw(t, "state") {
	case 0, 1:
		pv.ClaimedBy(testkit.Claim(claim))
	case 2:
		pv.PreBound(claim)
	case 3:
		pv.ClaimedByUID(claim, "old").Phase(v1.VolumeReleased)
	case 4:
		pv.Terminating()
	case 5:
		pv.Phase(v1.VolumePending)
	}
	return pv
}

// drawClaim draws a claim; one that is bound brings its volume.
func drawClaim(t *rapid.T, name string) (claim testkit.ClaimBuilder, own []testkit.VolumeBuilder) {
	claim = testkit.Claim(name).
		Class(rapid.SampledFrom([]string{"local", "local", "fast", "fast", "fast"}).Draw(t, "class")).
		Size(rapid.SampledFrom([]string{"1Gi", "5Gi", "10Gi"}).Draw(t, "size"))
	pv := testkit.Volume("pv-of-" + name).Class(*claim.Spec.StorageClassName).ClaimedBy(claim)
	state := rapid.IntRange(0, 29).Draw(t, "state")
	switch state {
	case 0, 1, 2, 3, 4:
		claim.Bound(pv.Name)
	case 5, 6:
		claim.Names(pv.Name)
	case 7:
		claim.Bound(pv.Name)
		pv.OnHost("n2")
	case 8, 9:
		claim.Selected(nodeName)
	case 10:
		claim.Selected("n2.example")
	case 11:
		claim.Bound(fmt.Sprintf("pv-%d", rapid.IntRange(0, 8).Draw(t, "names")))
	case 12:
		claim.Class(rapid.SampledFrom([]string{"now", "gone"}).Draw(t, "bad class"))
	}
	if state > 7 {
		return claim, nil
	}
	return claim, []testkit.VolumeBuilder{pv}
}

func copyFacts(facts *volumes.Facts) *volumes.Facts {
	copied := &volumes.Facts{Pod: facts.Pod.DeepCopy(), Node: facts.Node.DeepCopy(), CSINode: facts.CSINode.DeepCopy()}
	for _, c := range facts.Claims {
		c.Claim, c.Volume, c.Class = c.Claim.DeepCopy(), c.Volume.DeepCopy(), c.Class.DeepCopy()
		c.Candidates = append([]*v1.PersistentVolume(nil), c.Candidates...)
		for i, pv := range c.Candidates {
			c.Candidates[i] = pv.DeepCopy()
		}
		copied.Claims = append(copied.Claims, c)
	}
	return copied
}
