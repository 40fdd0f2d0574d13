package volumes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// The pod and the node of all plans. The node's hostname label is not its
// name (S22).
const (
	nodeName = "n1.example"
	hostname = "n1"
)

func planNode() testkit.NodeBuilder {
	return testkit.Node(nodeName).Label(v1.LabelHostname, hostname).Label(v1.LabelTopologyZone, "zone-a")
}

// planCase is one pod on the node. Plan lines look like "static data-0 -> pv-1".
type planCase struct {
	claims  []claimFacts
	node    *testkit.NodeBuilder // nil: planNode()
	csiNode *storagev1.CSINode
	want    []string // the plan; nil with an error
	wantErr string   // the whole text
}

// claimFacts builds volumes.ClaimFacts.
type claimFacts struct {
	volumes.ClaimFacts
	reported []*storagev1.CSIStorageCapacity
}

func missing(name string) claimFacts { return claimFacts{ClaimFacts: volumes.ClaimFacts{Name: name}} }

func of(claim testkit.ClaimBuilder) claimFacts {
	return claimFacts{ClaimFacts: volumes.ClaimFacts{Name: claim.Name, Claim: claim.PersistentVolumeClaim}}
}

func (f claimFacts) ephemeral() claimFacts { f.Ephemeral = true; return f }

func (f claimFacts) class(class testkit.ClassBuilder) claimFacts {
	f.Class = class.StorageClass
	return f
}

func (f claimFacts) volume(pv testkit.VolumeBuilder) claimFacts {
	f.Volume = pv.PersistentVolume
	return f
}

func (f claimFacts) among(candidates ...testkit.VolumeBuilder) claimFacts {
	for _, pv := range candidates {
		f.Candidates = append(f.Candidates, pv.PersistentVolume)
	}
	return f
}

func (f claimFacts) capacity(driver *storagev1.CSIDriver, capacities ...testkit.CapacityBuilder) claimFacts {
	f.Driver = driver
	for _, capacity := range capacities {
		f.reported = append(f.reported, capacity.CSIStorageCapacity)
	}
	return f
}

func (c planCase) facts() *volumes.Facts {
	node := planNode()
	if c.node != nil {
		node = *c.node
	}
	facts := &volumes.Facts{Pod: testkit.Pod("db-0").Pod, Node: node.Node, CSINode: c.csiNode}
	for _, claim := range c.claims {
		claim.FindRoom(claim.reported, node.Node)
		facts.Claims = append(facts.Claims, claim.ClaimFacts)
	}
	return facts
}

func show(plan *volumes.Plan) []string {
	if plan == nil {
		return nil
	}
	lines := []string{}
	add := func(kind string, bindings []volumes.Binding) {
		for _, b := range bindings {
			line := kind + " " + b.Claim.Name
			if b.Volume != nil {
				line += " -> " + b.Volume.Name
			}
			lines = append(lines, line)
		}
	}
	add("bound", plan.Bound)
	add("completing", plan.Completing)
	add("static", plan.Static)
	add("dynamic", plan.Dynamic)
	return lines
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return fault.Text(err)
}

func runPlans(t *testing.T, tests map[string]planCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := volumes.MakePlan(tc.facts())
			if diff := cmp.Diff(tc.wantErr, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, show(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
