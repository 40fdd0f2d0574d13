package explain_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/testkit"
)

// TestStates has a claim in each state, on node n1.
func TestStates(t *testing.T) {
	data := testkit.Claim("data")
	fast := func() testkit.ClaimBuilder { return testkit.Claim("data").Class("fast") }
	warning := testkit.Event("w", data.PersistentVolumeClaim, v1.EventTypeWarning, "ProvisioningFailed", "pool is\ndegraded", now-5)
	tests := map[string]struct {
		objects   []runtime.Object
		ephemeral bool
		state     string
		outcome   string // and what it names
		waitsFor  string
		reasons   string // words, separated by |, in this order; "" is no reason at all
		next      string // words of the verdict, then of what to do
	}{
		"bound": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(data)},
			state:   "Bound", outcome: "bound pv-1",
		},
		"bound, but its volume is elsewhere": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(data).OnHost("n2")},
			state:   "Bound", outcome: "refused NodeConflict", reasons: "volume pv-1|didn't match PersistentVolume's node affinity|n1",
			next: "claim data is bound to volume pv-1, which node n1 cannot reach|Let the pod go to a node with kubernetes.io/hostname in (n2)",
		},
		"its volume names it, and it does not know": {
			objects: []runtime.Object{data, testkit.Volume("pv-1").ClaimedBy(data)},
			state:   "Binding", outcome: "bind pv-1", waitsFor: "the PV controller to finish the binding to volume pv-1",
			reasons: "it waits for the PV controller", next: "claim data waits for the PV controller|see whether kube-controller-manager runs",
		},
		"it names its volume, and is not done": {
			objects: []runtime.Object{testkit.Claim("data").Names("pv-1"), testkit.Volume("pv-1").ClaimedBy(data)},
			state:   "Binding", outcome: "binding pv-1", waitsFor: "the PV controller", reasons: "it waits for", next: "waits for the PV controller to finish the binding to volume pv-1|Wait",
		},
		"it asks for a volume that is not there": {
			objects: []runtime.Object{testkit.Claim("data").Names("pv-9")},
			state:   "Binding", outcome: "refused ClaimUnbound", waitsFor: "volume pv-9", reasons: "it asks for volume pv-9",
			next: "claim data asks for volume pv-9, which does not exist|Create the volume",
		},
		"a volume waits for it": {
			objects: []runtime.Object{data, testkit.Volume("pv-1").OnHost("n1")},
			state:   "Pending", outcome: "bind pv-1", waitsFor: "pod db-0 to be scheduled", reasons: "it waits for pod db-0",
		},
		"no volume fits": {
			objects: []runtime.Object{data, testkit.Volume("pv-1").Size("1Gi")},
			state:   "Pending", outcome: "refused NoVolume", waitsFor: "pod db-0 to be scheduled",
			reasons: "didn't find available persistent volumes|1 volume is too small: pv-1 (it has 1Gi, the claim asks for 10Gi)",
			next:    "no available volume fits claim data (10Gi, class local) on node n1|Create a volume of class local, 10Gi or more, ReadWriteOnce, that node n1 can reach; storageclass local provisions none.",
		},
		"its class provisions": {
			objects: []runtime.Object{fast()},
			state:   "Pending", outcome: "provision csi.example.com", waitsFor: "pod db-0 to be scheduled", reasons: "it waits for pod db-0",
		},
		"its class does not provision there": {
			objects: []runtime.Object{fast(), testkit.Class("fast").Provisions("csi.example.com").Within(v1.LabelTopologyZone, "b")},
			state:   "Pending", outcome: "refused NoVolume", waitsFor: "pod db-0 to be scheduled", reasons: "allowedTopologies", next: "no available volume|have storageclass fast provision there",
		},
		"the provisioner gave it back": {
			objects: []runtime.Object{fast(), warning},
			state:   "Pending", outcome: "provision csi.example.com", waitsFor: "pod db-0 to be scheduled",
			reasons: "last warning, of 1970-01-12T13:46:35Z: ProvisioningFailed: pool is degraded",
			next:    "provisioner csi.example.com failed to make a volume for claim data, 5s ago: pool is degraded; it gave the claim back|the scheduler tries again",
		},
		"it is being provisioned": {
			objects: []runtime.Object{fast().Selected("n1")},
			state:   "Provisioning", outcome: "provision csi.example.com", waitsFor: "provisioner csi.example.com to make a volume for node n1",
			reasons: "it waits for provisioner", next: "claim data waits for provisioner csi.example.com to make a volume for node n1|see whether provisioner csi.example.com runs",
		},
		"it is being provisioned, and that fails": {
			objects: []runtime.Object{fast().Selected("n1"), warning},
			state:   "Provisioning", outcome: "provision csi.example.com", waitsFor: "provisioner", reasons: "pool is degraded",
			next: "failed to make a volume for claim data, 5s ago: pool is degraded|it tries again by itself",
		},
		"it is being provisioned for another node": {
			objects: []runtime.Object{fast().Selected("n2")},
			state:   "Provisioning", outcome: "refused SelectedNodeConflict", waitsFor: "for node n2", reasons: "for node n2, not n1",
			next: "claim data is being provisioned for node n2, not n1|Wait until its volume is there",
		},
		"there is too little room": {
			objects: []runtime.Object{fast(), testkit.Driver("csi.example.com", true), testkit.Capacity("c", "fast", "5Gi")},
			state:   "Pending", outcome: "refused NoCapacity", waitsFor: "pod db-0 to be scheduled",
			reasons: "did not have enough free storage|5Gi is the most that is reported (csistoragecapacity shop/c)",
			next:    "not enough free storage for claim data (10Gi, class fast) on node n1: 5Gi is the most|Free or add storage there",
		},
		"no room is reported": {
			objects: []runtime.Object{fast(), testkit.Driver("csi.example.com", true)},
			state:   "Pending", outcome: "refused NoCapacity", waitsFor: "pod db-0 to be scheduled", reasons: "did not have enough free storage",
			next: "driver csi.example.com reports none|--enable-capacity",
		},
		"lost": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1").Lost()},
			state:   "Lost", outcome: "refused ClaimLost", reasons: `bound to non-existent persistentvolume "pv-1"`,
			next: "claim data is Lost: its volume pv-1 does not exist any more|create a PersistentVolume pv-1|kubectl delete pvc data --namespace shop",
		},
		"its volume is gone, and it has not noticed": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1")},
			state:   "VolumeMissing", outcome: "refused VolumeNotFound", waitsFor: "volume pv-1 to come back", reasons: "bound to non-existent pv(s)",
			next: "bound to volume pv-1, which does not exist|create a PersistentVolume pv-1",
		},
		"its volume is another's": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(testkit.Claim("other"))},
			state:   "VolumeMismatch", outcome: "refused VolumeMismatch", reasons: "volume pv-1 is claimed by claim shop/other", next: "bound to volume pv-1, which belongs to another claim|Find out whose data",
		},
		"it does not exist": {
			state: "Missing", outcome: "refused ClaimNotFound", waitsFor: "somebody to create it", reasons: `persistentvolumeclaim "data" not found`,
			next: "claim data does not exist|Create the claim",
		},
		"it is not made yet": {
			ephemeral: true,
			state:     "Missing", outcome: "refused ClaimNotFound", waitsFor: "the ephemeral volume controller", reasons: "waiting for ephemeral volume controller",
			next: "claim db-0-data, of an ephemeral volume, has not been created yet|Wait for kube-controller-manager",
		},
		"another's claim is in the way": {
			ephemeral: true, objects: []runtime.Object{testkit.Claim("db-0-data")},
			state: "NotOwned", outcome: "refused ClaimNotOwned", waitsFor: "somebody to delete it", reasons: "was not created for pod", next: "was not created for the pod|kubectl delete pvc db-0-data --namespace shop",
		},
		"it is being deleted": {
			objects: []runtime.Object{testkit.Claim("data").Bound("pv-1").Terminating(), testkit.Volume("pv-1").ClaimedBy(data)},
			state:   "Terminating", outcome: "refused ClaimTerminating", waitsFor: "every pod that uses it to end", reasons: "it is being deleted", next: "claim data is being deleted|Delete pod shop/db-0",
		},
		"its class binds at once": {
			objects: []runtime.Object{testkit.Claim("data").Class("now")},
			state:   "Pending", outcome: "refused ClaimUnbound", waitsFor: "the PV controller to bind it, or to ask its provisioner", reasons: "its class binds immediately",
			next: "claim data is unbound, and its storageclass now binds immediately|Wait for provisioner csi.example.com",
		},
		"its class binds at once, and its provisioner is at it": {
			objects: []runtime.Object{testkit.Claim("data").Class("now").Annotate(volume.AnnStorageProvisioner, "csi.example.com"), warning},
			state:   "Provisioning", outcome: "refused ClaimUnbound", waitsFor: "provisioner csi.example.com", reasons: "its class binds immediately|pool is degraded",
			next: "failed to make a volume for claim data, 5s ago: pool is degraded|it tries again by itself",
		},
		"its class does not exist": {
			objects: []runtime.Object{testkit.Claim("data").Class("gone")},
			state:   "Pending", outcome: "refused ClaimUnbound", waitsFor: "storageclass gone to be created", reasons: `storageclass "gone" not found`,
			next: "storageclass gone does not exist|Create the storageclass",
		},
		"it has no class": {
			objects: []runtime.Object{testkit.Claim("data").NoClass()},
			state:   "Pending", outcome: "refused ClaimUnbound", waitsFor: "a volume without a class", reasons: "it has no class", next: "has no storageclass|Create a volume without a class",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := db0("data")
			if tc.ephemeral {
				pod = db0().UsesEphemeral("data")
			}
			report := scene{pod: pod, objects: tc.objects, options: explain.Options{Node: "n1"}}.mustRun(t)
			c := report.Claims[0]
			if c.State != tc.state {
				t.Errorf("state %s, want %s", c.State, tc.state)
			}
			kind, what, _ := strings.Cut(tc.outcome, " ")
			if c.OnNode.Outcome != kind || (what != c.OnNode.Volume && what != c.OnNode.Provisioner && what != c.OnNode.Code) {
				t.Errorf("outcome %+v, want %s", c.OnNode, tc.outcome)
			}
			wantWords(t, "waitsFor", c.WaitsFor, tc.waitsFor)
			wantWords(t, "reasons", strings.Join(c.Reasons, "\n"), tc.reasons)
			if c.Next != "" || tc.next != "" {
				wantWords(t, "verdict and next", report.Verdict+"\n"+c.Next, tc.next)
			}
			if fits := report.Nodes.Nodes[0].Fits; (fits == "no") != (kind == "refused") {
				t.Errorf("node fits: %s, outcome %s", fits, kind)
			}
		})
	}
}

// wantWords wants all of them, one after the other; none means no text.
func wantWords(t *testing.T, name, text, words string) {
	t.Helper()
	if words == "" && text != "" {
		t.Errorf("%s: %q, want nothing", name, text)
	}
	rest := text
	for word := range strings.SplitSeq(words, "|") {
		_, after, found := strings.Cut(rest, word)
		if !found {
			t.Errorf("%s lacks %q:\n%s", name, word, text)
		}
		rest = after
	}
}

func TestWhichNode(t *testing.T) {
	pv := testkit.Volume("pv-1").OnHost("n2")
	nominated := db0("data")
	nominated.Status.NominatedNodeName = "n2"
	choosy := db0("data")
	choosy.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "b"}
	fast := testkit.Claim("data").Class("fast")
	stale := testkit.Claim("data").Bound("pv-1").Selected("n3")
	tests := map[string]struct {
		pod     testkit.PodBuilder
		claim   testkit.ClaimBuilder
		options explain.Options
		want    explain.Target
		nodes   string // the nodes told, in their order
		leftOut int
	}{
		"the one given":             {pod: db0("data").OnNode("n1"), options: explain.Options{Node: "n3"}, want: explain.Target{Node: "n3", Why: "--node names it"}, nodes: "n3"},
		"the pod's":                 {pod: db0("data").OnNode("n2"), want: explain.Target{Node: "n2", Why: "the pod is assigned to it"}, nodes: "n2"},
		"the selected one":          {pod: nominated, claim: fast.Selected("n3"), want: explain.Target{Node: "n3", Why: "claim data is being provisioned for it (annotation selected-node)"}, nodes: "n3"},
		"the nominated one":         {pod: nominated, want: explain.Target{Node: "n2", Why: "the pod is nominated for it"}, nodes: "n2"},
		"not one selected long ago": {pod: nominated, claim: stale, want: explain.Target{Node: "n2", Why: "the pod is nominated for it"}, nodes: "n2"},
		"all, the closest first":    {pod: db0("data"), want: explain.Target{Why: "the pod has no node yet"}, nodes: "n2 n1 n3"},
		"all, if that is asked for": {pod: db0("data").OnNode("n1"), options: explain.Options{AllNodes: true}, want: explain.Target{Why: "--all-nodes asks for it"}, nodes: "n2 n1 n3"},
		"not what the pod rules out": {
			pod: choosy, want: explain.Target{Why: "the pod has no node yet"}, nodes: "n3", leftOut: 2,
		},
		"all, if the pod's is gone": {pod: db0("data").OnNode("n9"), want: explain.Target{Gone: "n9", Why: "node n9 does not exist; the pod is assigned to it"}, nodes: "n2 n1 n3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.claim.PersistentVolumeClaim == nil {
				tc.claim = testkit.Claim("data")
			}
			report := scene{pod: tc.pod, objects: []runtime.Object{tc.claim, pv}, options: tc.options}.mustRun(t)
			if report.Target != tc.want {
				t.Errorf("target %+v, want %+v", report.Target, tc.want)
			}
			var nodes []string
			for _, node := range report.Nodes.Nodes {
				nodes = append(nodes, node.Node)
			}
			if got := strings.Join(nodes, " "); got != tc.nodes || report.Nodes.LeftOut != tc.leftOut {
				t.Errorf("nodes %q and %d left out, want %q and %d", got, report.Nodes.LeftOut, tc.nodes, tc.leftOut)
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	tests := map[string]struct {
		scene
		want string
	}{
		"no such pod":      {scene{pod: db0(), options: explain.Options{Pod: "web"}}, "pod shop/web does not exist: see `kubectl get pods --namespace shop`"},
		"no such node":     {scene{pod: db0("data"), options: explain.Options{Node: "n9"}}, "node n9 does not exist: see `kubectl get nodes`"},
		"no node, no need": {scene{pod: db0(), options: explain.Options{Node: "n9"}}, "node n9 does not exist"},
		"no right to pods": {scene{pod: db0(), forbid: []string{"get pods"}}, "you may not get pods in namespace shop"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tc.run(t)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// What may not be read makes an answer unknown, never wrong.
func TestRightsAreMissing(t *testing.T) {
	data := testkit.Claim("data")
	bound := []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(data).OnHost("n2")}
	fast := []runtime.Object{testkit.Claim("data").Class("fast"), testkit.Driver("csi.example.com", true), testkit.Capacity("c", "fast", "5Gi")}
	tests := map[string]struct {
		objects []runtime.Object
		forbid  string
		state   string
		outcome string // on n1; "" none
	}{
		"of the claim":      {[]runtime.Object{data}, "get persistentvolumeclaims", "Unknown", "unknown"},
		"of its volume":     {bound, "get persistentvolumes", "Bound", "unknown"},
		"of its class":      {[]runtime.Object{data}, "get storageclasses", "Pending", "unknown"},
		"of free volumes":   {[]runtime.Object{data}, "list persistentvolumes", "Pending", "unknown"},
		"of the driver":     {fast, "get csidrivers", "Pending", "unknown"},
		"of capacities":     {fast, "list csistoragecapacities", "Pending", "unknown"},
		"of the node":       {bound, "get nodes", "Bound", ""},
		"of events":         {bound, "list events", "Bound", "refused"},
		"of a lost claim's": {[]runtime.Object{testkit.Claim("data").Bound("pv-1").Lost()}, "get persistentvolumes", "Lost", "refused"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := scene{pod: db0("data"), objects: tc.objects, forbid: []string{tc.forbid}, options: explain.Options{Node: "n1"}}.mustRun(t)
			if len(report.Missing) != 1 || !strings.HasPrefix(report.Missing[0], "you may not "+tc.forbid) {
				t.Errorf("missing %q, want %s", report.Missing, tc.forbid)
			}
			c := report.Claims[0]
			outcome := ""
			if c.OnNode != nil {
				outcome = c.OnNode.Outcome
			}
			if c.State != tc.state || outcome != tc.outcome {
				t.Errorf("%s, %q, want %s, %q", c.State, outcome, tc.state, tc.outcome)
			}
			if outcome == "unknown" && (len(c.Reasons) == 0 || !strings.Contains(c.Reasons[0], "you may not ")) {
				t.Errorf("reasons %q", c.Reasons)
			}
		})
	}
}
