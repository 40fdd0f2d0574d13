package volumes_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/internal/testkit"
)

const noVolume = "NoVolume: claim shop/data-0 (class local): node n1.example: node(s) didn't find available persistent volumes to bind (1 volumes considered, class provisions none)"

func TestMakePlanMatchesVolumesAndClaims(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("data-0") }
	pv := func() testkit.VolumeBuilder { return testkit.Volume("pv-1") }
	local := testkit.Class("local")
	match := func(c testkit.ClaimBuilder, candidates ...testkit.VolumeBuilder) planCase {
		return planCase{claims: []claimFacts{of(c).class(local).among(candidates...)}, want: []string{"static data-0 -> pv-1"}}
	}
	refuse := func(c testkit.ClaimBuilder, candidate testkit.VolumeBuilder) planCase {
		return planCase{claims: []claimFacts{of(c).class(local).among(candidate)}, wantErr: noVolume}
	}
	oddSelector := claim().Selects("tier", "ssd")
	oddSelector.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Like"}}
	runPlans(t, map[string]planCase{
		"the smallest volume that is large enough": match(claim().Size("10Gi"),
			testkit.Volume("pv-s").Size("9Gi"), testkit.Volume("pv-l").Size("100Gi"), pv().Size("12Gi"), testkit.Volume("pv-m").Size("50Gi")),
		"a volume of exactly the size, in another unit": match(claim().Size("1Gi"), pv().Size("1024Mi")),
		"a volume one byte too small is refused":        refuse(claim().Size("1Gi"), pv().Size("1073741823")),
		"a claim without a request takes any":           match(sizeless(claim()), pv().Size("1")),

		"the node's labels count":             match(claim(), testkit.Volume("pv-2").OnHost("n2"), pv().OnHost(hostname)),
		"the node's name does not (S22)":      refuse(claim(), pv().OnHost(nodeName)),
		"any one of several topology terms":   match(claim(), pv().OnHost("n2").Within(v1.LabelTopologyZone, "zone-a")),
		"a label that the node does not have": refuse(claim(), pv().Within("rack", "r1")),

		"more access modes than asked for (S31)":       match(claim().Modes(v1.ReadWriteOnce), pv().Modes(v1.ReadOnlyMany, v1.ReadWriteOnce)),
		"a mode that means more is not the same (S31)": refuse(claim().Modes(v1.ReadWriteOnce), pv().Modes(v1.ReadWriteMany)),
		"too few access modes (S31)":                   refuse(claim().Modes(v1.ReadWriteOnce, v1.ReadOnlyMany), pv().Modes(v1.ReadWriteOnce)),

		"a block claim takes the block volume (S32)":             match(claim().Block(), testkit.Volume("pv-fs"), pv().Block()),
		"a block claim does not take a file system (S32)":        refuse(claim().Block(), pv()),
		"a file system claim does not take a block volume (S32)": refuse(claim(), pv().Block()),
		"no volume mode is the file system mode (S32)":           match(withFilesystem(claim()), pv()),

		"the selector picks":   match(claim().Selects("tier", "ssd"), testkit.Volume("pv-2").Label("tier", "hdd"), pv().Label("tier", "ssd")),
		"the selector refuses": refuse(claim().Selects("tier", "ssd"), pv()),
		"a selector that says nothing valid": {
			claims:  []claimFacts{of(oddSelector).class(local).among(pv())},
			wantErr: `NoVolume: claim shop/data-0 (class local): node n1.example: error creating internal label selector for claim: shop/data-0: "Like" is not a valid label selector operator`,
		},
		"the same attributes class":    match(claim().Attributes("gold"), testkit.Volume("pv-2"), pv().Attributes("gold")),
		"another attributes class":     refuse(claim().Attributes("gold"), pv().Attributes("silver")),
		"attributes nobody asked for":  refuse(claim(), pv().Attributes("silver")),
		"empty attributes are no ones": match(claim().Attributes(""), pv()),

		"a volume still Pending is refused (S42)":    refuse(claim(), pv().Phase(v1.VolumePending)),
		"a volume without a phase is refused (S42)":  refuse(claim(), pv().Phase("")),
		"a Released volume is refused":               refuse(claim(), pv().Phase(v1.VolumeReleased)),
		"a terminating volume is refused":            refuse(claim(), pv().Terminating()),
		"a volume claimed by another is refused":     refuse(claim(), pv().ClaimedBy(testkit.Claim("other"))),
		"a volume of another class is refused (S33)": refuse(claim(), pv().Class("")),
	})
}

func TestMakePlanMatchesPreBoundVolumes(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("data-0") }
	pv := func() testkit.VolumeBuilder { return testkit.Volume("pv-1").Size("100Gi") }
	free := func() testkit.VolumeBuilder { return testkit.Volume("pv-2") }
	local, fast := testkit.Class("local"), testkit.Class("local").Provisions("csi.example.com")
	runPlans(t, map[string]planCase{
		"a pre-bound volume goes before a smaller free one (S27)": {
			claims: []claimFacts{of(claim()).class(local).among(free(), pv().PreBound("data-0"))},
			want:   []string{"static data-0 -> pv-1"},
		},
		"a pre-bound volume need not be Available (S42)": {
			claims: []claimFacts{of(claim()).class(local).among(free(), pv().PreBound("data-0").Phase(v1.VolumePending))},
			want:   []string{"static data-0 -> pv-1"},
		},
		"a volume written by an earlier attempt is kept": {
			claims: []claimFacts{of(claim()).class(local).among(free(), pv().ClaimedBy(claim()))},
			want:   []string{"static data-0 -> pv-1"},
		},
		"a volume pre-bound to an older claim of this name is not (S27)": {
			claims: []claimFacts{of(claim()).class(local).among(pv().ClaimedByUID("data-0", "old").Phase(v1.VolumeReleased), free())},
			want:   []string{"static data-0 -> pv-2"},
		},
		"a volume pre-bound to a larger claim is left to it": {
			claims: []claimFacts{
				of(claim()).class(local).among(pv().PreBound("data-1"), free()),
				of(testkit.Claim("data-1").Size("50Gi")).class(local).among(pv().PreBound("data-1"), free()),
			},
			want: []string{"static data-0 -> pv-2", "static data-1 -> pv-1"},
		},
		"a claim that is pre-bound on another node takes no volume here": {
			claims:  []claimFacts{of(claim()).class(local).among(pv().PreBound("data-0").OnHost("n2"), free())},
			wantErr: "NodeConflict: claim shop/data-0 (class local): it is pre-bound to volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example",
		},
		"nor is a volume provisioned for it": {
			claims:  []claimFacts{of(claim()).class(fast).among(pv().ClaimedBy(claim()).OnHost("n2"))},
			wantErr: "NodeConflict: claim shop/data-0 (class local): it is pre-bound to volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example",
		},
		"nor while it is being provisioned": {
			claims:  []claimFacts{of(claim().Selected(nodeName)).class(fast).among(pv().ClaimedBy(claim()).OnHost("n2"))},
			wantErr: "NodeConflict: claim shop/data-0 (class local): it is pre-bound to volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example",
		},
		"a pre-bound volume that is too small binds nothing": {
			claims: []claimFacts{of(claim()).class(local).among(pv().PreBound("data-0").Size("1Gi").OnHost("n2"), free())},
			want:   []string{"static data-0 -> pv-2"},
		},
		"a pre-bound volume that is terminating binds nothing": {
			claims: []claimFacts{of(claim()).class(local).among(pv().PreBound("data-0").Terminating().OnHost("n2"), free())},
			want:   []string{"static data-0 -> pv-2"},
		},
	})
}

func TestMakePlanSharesVolumesOutAmongClaims(t *testing.T) {
	local, fast := testkit.Class("local"), testkit.Class("local").Provisions("csi.example.com")
	small, large := testkit.Volume("pv-10").Size("10Gi"), testkit.Volume("pv-50").Size("50Gi")
	runPlans(t, map[string]planCase{
		"the smallest claim chooses first": {
			claims: []claimFacts{
				of(testkit.Claim("big").Size("40Gi")).class(local).among(large, small),
				of(testkit.Claim("little").Size("5Gi")).class(local).among(large, small),
			},
			want: []string{"static little -> pv-10", "static big -> pv-50"},
		},
		"sizes are compared as quantities, not as text": {
			claims: []claimFacts{
				of(testkit.Claim("big").Size("9Gi")).class(local).among(large, small),
				of(testkit.Claim("little").Size("10000Ki")).class(local).among(large, small),
			},
			want: []string{"static little -> pv-10", "static big -> pv-50"},
		},
		"claims of equal size keep the pod's order": {
			claims: []claimFacts{
				of(testkit.Claim("z")).class(local).among(small, large),
				of(testkit.Claim("a")).class(local).among(small, large),
			},
			want: []string{"static z -> pv-10", "static a -> pv-50"},
		},
		"one volume does not do for two claims": {
			claims: []claimFacts{
				of(testkit.Claim("a")).class(local).among(small),
				of(testkit.Claim("data-0")).class(local).among(small),
			},
			wantErr: noVolume,
		},
		"the claim that is left over is provisioned": {
			claims: []claimFacts{
				of(testkit.Claim("a")).class(fast).among(small),
				of(testkit.Claim("b")).class(fast).among(small),
			},
			want: []string{"static a -> pv-10", "dynamic b"},
		},
	})
}

func sizeless(claim testkit.ClaimBuilder) testkit.ClaimBuilder {
	claim.Spec.Resources.Requests = nil
	return claim
}

func withFilesystem(claim testkit.ClaimBuilder) testkit.ClaimBuilder {
	mode := v1.PersistentVolumeFilesystem
	claim.Spec.VolumeMode = &mode
	return claim
}
