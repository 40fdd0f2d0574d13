package volumes_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csiplugins "k8s.io/csi-translation-lib/plugins"

	"github.com/prebind/prebind/internal/testkit"
)

const (
	noRoom   = "NoCapacity: claim shop/data-0 (class fast): node n1.example: node(s) did not have enough free storage (driver csi.example.com)"
	notThere = "NoVolume: claim shop/data-0 (class fast): node n1.example: node(s) didn't find available persistent volumes to bind (0 volumes considered, class does not provision there: allowedTopologies)"
	nobody   = "NoVolume: claim shop/data-0 (class fast): node n1.example: node(s) didn't find available persistent volumes to bind (0 volumes considered, class provisions none)"
)

func TestMakePlanProvisions(t *testing.T) {
	claim := func() testkit.ClaimBuilder { return testkit.Claim("data-0").Class("fast") }
	fast := func() testkit.ClassBuilder { return testkit.Class("fast").Provisions("csi.example.com") }
	pv := testkit.Volume("pv-1").Class("fast")
	with := func(c testkit.ClaimBuilder, class testkit.ClassBuilder) planCase {
		return planCase{claims: []claimFacts{of(c).class(class)}, want: []string{"dynamic data-0"}}
	}
	without := func(c testkit.ClaimBuilder, class testkit.ClassBuilder, wantErr string) planCase {
		return planCase{claims: []claimFacts{of(c).class(class)}, wantErr: wantErr}
	}
	twoLabels := fast().Within(v1.LabelTopologyZone, "zone-a")
	twoLabels.AllowedTopologies[0].MatchLabelExpressions = append(twoLabels.AllowedTopologies[0].MatchLabelExpressions,
		v1.TopologySelectorLabelRequirement{Key: v1.LabelHostname, Values: []string{"n2"}})
	emptyTerm := fast()
	emptyTerm.AllowedTopologies = []v1.TopologySelectorTerm{{}}
	runPlans(t, map[string]planCase{
		"a class with a provisioner provisions what no volume satisfies": with(claim(), fast()),
		"a volume that fits is taken instead": {
			claims: []claimFacts{of(claim()).class(fast()).among(pv)}, want: []string{"static data-0 -> pv-1"},
		},
		"a class without a provisioner does not":         without(claim(), testkit.Class("fast"), nobody),
		"a class with an empty provisioner does not":     without(claim(), testkit.Class("fast").Provisions(""), nobody),
		"a topology that has the node":                   with(claim(), fast().Within(v1.LabelTopologyZone, "zone-b", "zone-a")),
		"a topology that does not have the node":         without(claim(), fast().Within(v1.LabelTopologyZone, "zone-b"), notThere),
		"a topology by a label that the node lacks":      without(claim(), fast().Within("rack", "r1"), notThere),
		"one of two topologies is enough":                with(claim(), fast().Within(v1.LabelHostname, "n2").Within(v1.LabelTopologyZone, "zone-a")),
		"one of two labels of a topology is not":         without(claim(), twoLabels, notThere),
		"an empty topology term allows no node":          without(claim(), emptyTerm, notThere),
		"a claim that is being provisioned here goes on": with(claim().Selected(nodeName), fast()),
		"and takes no volume that has become free since": {
			claims: []claimFacts{of(claim().Selected(nodeName)).class(fast()).among(pv)}, want: []string{"dynamic data-0"},
		},
		"a claim that is being provisioned for another node (S15 b)": {
			claims:  []claimFacts{of(claim().Selected("n2.example")).class(fast()).among(pv)},
			wantErr: "SelectedNodeConflict: claim shop/data-0 (class fast): it is being provisioned for node n2.example, not n1.example: only the provisioner may give it back",
		},
		"selected-node is the node's name, never its hostname label (S22)": {
			claims:  []claimFacts{of(claim().Selected(hostname)).class(fast())},
			wantErr: "SelectedNodeConflict: claim shop/data-0 (class fast): it is being provisioned for node n1, not n1.example: only the provisioner may give it back",
		},
		"an empty selected-node is somebody's too": {
			claims:  []claimFacts{of(claim().Selected("")).class(fast())},
			wantErr: "SelectedNodeConflict: claim shop/data-0 (class fast): it is being provisioned for node , not n1.example: only the provisioner may give it back",
		},
	})
}

func TestMakePlanChecksCapacity(t *testing.T) {
	driver := testkit.Driver("csi.example.com", true)
	sized := func(capacity ...testkit.CapacityBuilder) claimFacts {
		return of(testkit.Claim("data-0").Class("fast").Size("10Gi")).
			class(testkit.Class("fast").Provisions("csi.example.com")).capacity(driver, capacity...)
	}
	room := func(size string) testkit.CapacityBuilder { return testkit.Capacity("c", "fast", size) }
	provision := func(facts claimFacts) planCase {
		return planCase{claims: []claimFacts{facts}, want: []string{"dynamic data-0"}}
	}
	refuse := func(facts claimFacts) planCase {
		return planCase{claims: []claimFacts{facts}, wantErr: noRoom}
	}
	unsized := of(sizeless(testkit.Claim("data-0").Class("fast"))).class(testkit.Class("fast").Provisions("csi.example.com")).capacity(driver)
	undecided := &storagev1.CSIDriver{}
	unknown := room("1Ti")
	unknown.Capacity = nil
	asked := sized()
	asked.Claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": nodeName}
	runPlans(t, map[string]planCase{
		"exactly enough":                                provision(sized(room("10Gi"))),
		"one byte too little":                           refuse(sized(room("10737418239"))),
		"enough somewhere else":                         refuse(sized(room("1Ti").For(v1.LabelTopologyZone, "zone-b"))),
		"enough in the node's zone":                     provision(sized(room("1Gi"), room("1Ti").For(v1.LabelTopologyZone, "zone-a"))),
		"no pool is large enough, all together are":     refuse(sized(room("6Gi"), room("6Gi"))),
		"the largest volume counts, not what is free":   refuse(sized(room("1Ti").Largest("9Gi"))),
		"the largest volume counts, however full":       provision(sized(room("1Gi").Largest("10Gi"))),
		"a pool without a topology is nobody's":         refuse(sized(room("1Ti").ForNobody())),
		"a pool that reports nothing has nothing":       refuse(sized(unknown)),
		"a driver that reports no pool":                 refuse(sized()),
		"a driver that does not ask for the check":      provision(sized().capacity(testkit.Driver("csi.example.com", false))),
		"a driver that does not say":                    provision(sized().capacity(undecided)),
		"a provisioner that is no CSI driver":           provision(sized().capacity(nil)),
		"a claim without a size needs no room":          provision(unsized),
		"a claim that was asked for is checked no more": provision(asked),
	})
}

func TestMakePlanHeedsCSIMigration(t *testing.T) {
	claim := testkit.Claim("data-0").Bound("pv-1")
	// What the plugin calls zone is, on a node with the CSI driver, a label of
	// the driver.
	disk := testkit.Volume("pv-1").AWSDisk("zone-a").ClaimedBy(claim)
	const conflict = "NodeConflict: claim shop/data-0 (class local): volume pv-1: node(s) didn't match PersistentVolume's node affinity: node n1.example: no matching NodeSelectorTerms"
	bound := func(csiNode *storagev1.CSINode) planCase {
		return planCase{claims: []claimFacts{of(claim).volume(disk)}, csiNode: csiNode, want: []string{"bound data-0 -> pv-1"}}
	}
	refused := bound(testkit.CSINode(nodeName, csiplugins.AWSEBSInTreePluginName))
	refused.want, refused.wantErr = nil, conflict
	inDriverZone := planNode().Label("topology.ebs.csi.aws.com/zone", "zone-a")
	accepted := bound(testkit.CSINode(nodeName, csiplugins.AWSEBSInTreePluginName))
	accepted.node = &inDriverZone
	unlisted := testkit.CSINode(nodeName, "")
	unlisted.Annotations = nil
	runPlans(t, map[string]planCase{
		"without a CSINode the volume is judged as it is (S50)":       bound(nil),
		"without migration on the node too":                           bound(testkit.CSINode(nodeName, "")),
		"without the annotation too":                                  bound(unlisted),
		"with another plugin migrated too":                            bound(testkit.CSINode(nodeName, csiplugins.GCEPDInTreePluginName)),
		"with its plugin migrated the driver's topology label counts": refused,
		"and is enough": accepted,
		"one of several migrated plugins is enough": {
			claims:  []claimFacts{of(claim).volume(disk)},
			csiNode: testkit.CSINode(nodeName, csiplugins.GCEPDInTreePluginName+","+csiplugins.AWSEBSInTreePluginName),
			wantErr: conflict,
		},
		"a volume of a CSI driver needs no translation": {
			claims:  []claimFacts{of(claim).volume(testkit.Volume("pv-1").OnHost(hostname).ClaimedBy(claim))},
			csiNode: testkit.CSINode(nodeName, csiplugins.AWSEBSInTreePluginName),
			want:    []string{"bound data-0 -> pv-1"},
		},
	})
}
