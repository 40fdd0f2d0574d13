package volumes_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/testkit"
)

func TestMakePlanForClaimsInEveryState(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("data-0") }
	local := testkit.Class("local")
	owned := func(c testkit.ClaimBuilder) testkit.VolumeBuilder { return testkit.Volume("pv-1").ClaimedBy(c) }
	runPlans(t, map[string]planCase{
		"a pod without claims needs nothing": {want: []string{}},
		"a bound claim needs nothing": {
			claims: []claimFacts{of(claim().Bound("pv-1")).volume(owned(claim()).OnHost(hostname))},
			want:   []string{"bound data-0 -> pv-1"},
		},
		"a bound claim needs no class any more (S53)": {
			claims: []claimFacts{of(claim().Class("deleted").Bound("pv-1")).volume(owned(claim()))},
			want:   []string{"bound data-0 -> pv-1"},
		},
		"a bound claim whose volume is on another node does not fit": {
			claims:  []claimFacts{of(claim().Bound("pv-1")).volume(owned(claim()).OnHost("n2"))},
			wantErr: "NodeConflict: claim shop/data-0 (class local): volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example: no matching NodeSelectorTerms",
		},
		"a bound claim whose volume does not exist": {
			claims:  []claimFacts{of(claim().Bound("pv-1"))},
			wantErr: "VolumeNotFound: claim shop/data-0 (class local): volume pv-1: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
		},
		"a bound claim whose volume belongs to a claim of the same name and another uid": {
			claims:  []claimFacts{of(claim().Bound("pv-1")).volume(testkit.Volume("pv-1").ClaimedByUID("data-0", "old"))},
			wantErr: "VolumeMismatch: claim shop/data-0 (class local): volume pv-1 is claimed by claim shop/data-0 (uid old)",
		},
		"a bound claim whose volume is claimed by nobody": {
			claims:  []claimFacts{of(claim().Bound("pv-1")).volume(testkit.Volume("pv-1"))},
			wantErr: "VolumeMismatch: claim shop/data-0 (class local): volume pv-1 is claimed by no claim",
		},
		"a half-bound claim whose volume is the claim's is left to the PV controller (S06)": {
			claims: []claimFacts{of(claim().Names("pv-1")).class(local).volume(owned(claim())).among(testkit.Volume("pv-2"))},
			want:   []string{"completing data-0 -> pv-1"},
		},
		"a half-bound claim whose volume is on another node does not fit": {
			claims:  []claimFacts{of(claim().Names("pv-1")).class(local).volume(owned(claim()).OnHost("n2"))},
			wantErr: "NodeConflict: claim shop/data-0 (class local): volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example: no matching NodeSelectorTerms",
		},
		"a claim that asks for a volume that is not yet its own": {
			claims:  []claimFacts{of(claim().Names("pv-1")).class(local).volume(testkit.Volume("pv-1"))},
			wantErr: "ClaimUnbound: claim shop/data-0 (class local): pod has unbound immediate PersistentVolumeClaims: it asks for volume pv-1, which the PV controller has not bound to it",
		},
		"a claim that asks for a volume that does not exist": {
			claims:  []claimFacts{of(claim().Names("pv-1")).class(local)},
			wantErr: "ClaimUnbound: claim shop/data-0 (class local): pod has unbound immediate PersistentVolumeClaims: it asks for volume pv-1, which the PV controller has not bound to it",
		},
		"a lost claim": {
			claims:  []claimFacts{of(claim().Bound("pv-1").Lost())},
			wantErr: `ClaimLost: claim shop/data-0 (class local): bound to non-existent persistentvolume "pv-1"`,
		},
		"a terminating claim": {
			claims:  []claimFacts{of(claim().Terminating()).class(local).among(testkit.Volume("pv-1"))},
			wantErr: "ClaimTerminating: claim shop/data-0 (class local): it is being deleted",
		},
		"a terminating claim is refused even if it is bound": {
			claims:  []claimFacts{of(claim().Bound("pv-1").Terminating()).volume(owned(claim()))},
			wantErr: "ClaimTerminating: claim shop/data-0 (class local): it is being deleted",
		},
		"a missing claim": {
			claims:  []claimFacts{missing("data-0")},
			wantErr: `ClaimNotFound: claim shop/data-0: persistentvolumeclaim "data-0" not found`,
		},
		"a claim with an empty phase is unbound like any other (S06)": {
			claims: []claimFacts{of(phaseless(claim())).class(local).among(testkit.Volume("pv-1"))},
			want:   []string{"static data-0 -> pv-1"},
		},
	})
}

func phaseless(claim testkit.ClaimBuilder) testkit.ClaimBuilder {
	claim.Status.Phase = ""
	return claim
}

func TestMakePlanForEphemeralClaims(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("db-0-scratch") }
	facts := func(c testkit.ClaimBuilder) claimFacts {
		return of(c).ephemeral().class(testkit.Class("local")).among(testkit.Volume("pv-1"))
	}
	runPlans(t, map[string]planCase{
		"a claim that the pod owns is a claim like any other (S37 d)": {
			claims: []claimFacts{facts(claim().OwnedBy(testkit.Pod("db-0")))},
			want:   []string{"static db-0-scratch -> pv-1"},
		},
		"the controller has not made the claim yet (S37 a)": {
			claims:  []claimFacts{missing("db-0-scratch").ephemeral()},
			wantErr: `ClaimNotFound: claim shop/db-0-scratch: waiting for ephemeral volume controller to create the persistentvolumeclaim "db-0-scratch"`,
		},
		"somebody made a claim of this name by hand (S37 b)": {
			claims:  []claimFacts{facts(claim())},
			wantErr: "ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
		"the claim belongs to an older pod of this name (S37 c)": {
			claims:  []claimFacts{facts(claim().OwnedBy(testkit.Pod("db-0").WithUID("old")))},
			wantErr: "ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
		"the claim belongs to a pod whose name makes the same claim name (S37)": {
			claims:  []claimFacts{facts(claim().OwnedBy(testkit.Pod("db")))},
			wantErr: "ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
		"a bound claim of another pod is refused too": {
			claims: []claimFacts{of(claim().OwnedBy(testkit.Pod("db")).Bound("pv-1")).ephemeral().
				volume(testkit.Volume("pv-1").ClaimedBy(claim()))},
			wantErr: "ClaimNotOwned: claim shop/db-0-scratch (class local): PVC shop/db-0-scratch was not created for pod shop/db-0 (pod is not owner)",
		},
	})
}

func TestMakePlanForClassesOfEveryKind(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("data-0") }
	local := testkit.Class("local")
	noMode := testkit.Class("local")
	noMode.VolumeBindingMode = nil
	legacy := testkit.Volume("pv-1").Class("").Annotate(v1.BetaStorageClassAnnotation, "legacy")
	runPlans(t, map[string]planCase{
		"an unbound claim of an immediate class": {
			claims:  []claimFacts{of(claim().Class("net")).class(testkit.Class("net").Immediate()).among(testkit.Volume("pv-1").Class("net"))},
			wantErr: "ClaimUnbound: claim shop/data-0 (class net): pod has unbound immediate PersistentVolumeClaims: its class binds immediately: the PV controller or the provisioner must bind it first",
		},
		"a class without a binding mode binds immediately": {
			claims:  []claimFacts{of(claim()).class(noMode).among(testkit.Volume("pv-1"))},
			wantErr: "ClaimUnbound: claim shop/data-0 (class local): pod has unbound immediate PersistentVolumeClaims: its class binds immediately: the PV controller or the provisioner must bind it first",
		},
		"a class that does not exist (S53)": {
			claims:  []claimFacts{of(claim().Class("gone"))},
			wantErr: `ClaimUnbound: claim shop/data-0 (class gone): pod has unbound immediate PersistentVolumeClaims: storageclass "gone" not found`,
		},
		"an empty class (S33)": {
			claims:  []claimFacts{of(claim().Class(""))},
			wantErr: "ClaimUnbound: claim shop/data-0: pod has unbound immediate PersistentVolumeClaims: it has no class, so the PV controller must bind it",
		},
		"no class at all (S33)": {
			claims:  []claimFacts{of(claim().NoClass())},
			wantErr: "ClaimUnbound: claim shop/data-0: pod has unbound immediate PersistentVolumeClaims: it has no class, so the PV controller must bind it",
		},
		"the annotation is the class, with or without the field (S33)": {
			claims: []claimFacts{
				of(claim().NoClass().Annotate(v1.BetaStorageClassAnnotation, "legacy")).class(testkit.Class("legacy")).among(legacy),
				of(testkit.Claim("data-1").Annotate(v1.BetaStorageClassAnnotation, "legacy")).class(testkit.Class("legacy")).among(legacy, legacy.Copy("pv-2")),
			},
			want: []string{"static data-0 -> pv-1", "static data-1 -> pv-2"},
		},
		"the annotation on a volume hides its field (S33)": {
			claims:  []claimFacts{of(claim()).class(local).among(testkit.Volume("pv-1").Annotate(v1.BetaStorageClassAnnotation, "legacy"))},
			wantErr: "NoVolume: claim shop/data-0 (class local): node n1.example: node(s) didn't find available persistent volumes to bind (1 volumes considered, class provisions none)",
		},
	})
}

func TestMakePlanForSeveralClaims(t *testing.T) {
	local, fast := testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com")
	net := testkit.Claim("net").Class("net")
	onHost := func(host string) testkit.VolumeBuilder {
		return testkit.Volume("pv-net").Class("net").ClaimedBy(net).OnHost(host)
	}
	runPlans(t, map[string]planCase{
		"an immediate claim bound here and a delayed one (S26 a)": {
			claims: []claimFacts{of(testkit.Claim("net").Class("net").Bound("pv-net")).volume(onHost(hostname)), of(testkit.Claim("data").Class("fast")).class(fast)},
			want:   []string{"bound net -> pv-net", "dynamic data"},
		},
		"an immediate claim bound elsewhere stops the delayed one (S26 a)": {
			claims:  []claimFacts{of(testkit.Claim("net").Class("net").Bound("pv-net")).volume(onHost("n2")), of(testkit.Claim("data").Class("fast")).class(fast)},
			wantErr: "NodeConflict: claim shop/net (class net): volume pv-net: node(s) didn't match PersistentVolume's node affinity: node n1.example: no matching NodeSelectorTerms",
		},
		"an immediate claim still unbound stops the delayed one (S26 b)": {
			claims:  []claimFacts{of(testkit.Claim("net").Class("net")).class(testkit.Class("net").Immediate()), of(testkit.Claim("data").Class("fast")).class(fast)},
			wantErr: "ClaimUnbound: claim shop/net (class net): pod has unbound immediate PersistentVolumeClaims: its class binds immediately: the PV controller or the provisioner must bind it first",
		},
		"one of each kind": {
			claims: []claimFacts{
				of(testkit.Claim("new").Class("fast")).class(fast),
				of(testkit.Claim("data")).class(local).among(testkit.Volume("pv-1")),
				of(testkit.Claim("half").Names("pv-half")).class(local).volume(testkit.Volume("pv-half").ClaimedBy(testkit.Claim("half"))),
				of(testkit.Claim("net").Class("net").Bound("pv-net")).volume(onHost(hostname)),
			},
			want: []string{"bound net -> pv-net", "completing half -> pv-half", "static data -> pv-1", "dynamic new"},
		},
		"every claim that stands in the way is named, the first one's code in front": {
			claims: []claimFacts{
				missing("a"),
				of(testkit.Claim("b")).class(local),
				of(testkit.Claim("c").Lost()),
				of(testkit.Claim("d")).class(local).among(testkit.Volume("pv-1")),
			},
			wantErr: `ClaimNotFound: claim shop/a: persistentvolumeclaim "a" not found; ` +
				`ClaimLost: claim shop/c (class local): bound to non-existent persistentvolume ""; ` +
				`NoVolume: claim shop/b (class local): node n1.example: node(s) didn't find available persistent volumes to bind (0 volumes considered, class provisions none)`,
		},
	})
}
