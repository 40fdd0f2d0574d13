package explain_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/testkit"
)

// What is left to say where the claims are not to blame.
func TestVerdicts(t *testing.T) {
	running := db0("data").OnNode("n1")
	running.Status.Phase = v1.PodRunning
	ok := []runtime.Object{testkit.Claim("data").Bound("pv-1"), testkit.Volume("pv-1").ClaimedBy(testkit.Claim("data"))}
	ended := db0("data").OnNode("n1")
	ended.Status.Phase = v1.PodSucceeded
	choosy := db0("data")
	choosy.Spec.NodeSelector = map[string]string{"pool": "db"}
	released := testkit.Volume("pv-1").ClaimedBy(testkit.Claim("data"))
	released.Spec.ClaimRef.UID, released.Status.Phase = "earlier", v1.VolumeReleased
	turn := func(second int64) runtime.Object {
		event := testkit.Event("turn", testkit.Claim("data").PersistentVolumeClaim, v1.EventTypeNormal, "WaitingForVolume", "node n1: claim shop/data waits for its turn to be provisioned", second)
		event.InvolvedObject = v1.ObjectReference{Kind: "Pod", Namespace: testkit.Namespace, Name: "db-0", UID: testkit.UID("db-0")}
		event.ReportingController = "prebind.dev/prebind"
		return event
	}
	tests := map[string]struct {
		scene
		verdict, next string
	}{
		"no claims":              {scene{pod: db0()}, "it uses no claims", "has not said anything of the pod"},
		"running":                {scene{pod: running, objects: ok}, "all its claims are bound, and it is on node n1", "Nothing."},
		"has ended":              {scene{pod: ended, objects: ok}, "it has ended: Succeeded", "Nothing."},
		"waits for a kubelet":    {scene{pod: db0("data").OnNode("n1"), objects: ok}, "all its claims are bound", "waits for the kubelet of node n1"},
		"on a node that is gone": {scene{pod: db0("data").OnNode("n9"), objects: ok}, "it is on node n9, which does not exist any more", "kubectl delete pod db-0 --namespace shop"},
		"nobody binds it":        {scene{pod: db0("data").OnNode("n1"), objects: []runtime.Object{testkit.Claim("data").Class("fast")}}, "claim data is unbound, and the pod is on node n1 already", "without spec.nodeName"},
		"gated":                  {scene{pod: db0("data").Gated("example.com/quota"), objects: ok}, "held by its scheduling gate example.com/quota", "has to remove it"},
		"refused for CPU":        {scene{pod: unschedulable(db0("data"), "0/3 nodes are available: 3 Insufficient cpu."), objects: ok}, "its claims allow 3 of 3 nodes", "3 Insufficient cpu."},
		"terminating":            {scene{pod: db0("data").Terminating(), objects: ok}, "it is being deleted", "Wait until it is gone"},
		"no node wanted":         {scene{pod: choosy, objects: ok}, "rules out all of 3 nodes", "change its nodeSelector"},
		"not wanted node":        {scene{pod: choosy, objects: ok, options: explain.Options{Node: "n1"}}, "its claims allow node n1, but its own nodeSelector or node affinity does not", "that the pod wants"},
		"waits for its turn":     {scene{pod: db0("data"), objects: []runtime.Object{testkit.Claim("data").Class("fast"), turn(now - 50)}}, "prebind has it waiting, as of 50s ago: node n1: claim shop/data waits for its turn", "prebind status"},
		"had waited for it":      {scene{pod: db0("data"), objects: []runtime.Object{testkit.Claim("data").Class("fast"), turn(now - 150)}}, "its claims allow 3 of 3 nodes", "has not said anything"},
		"no claim there":         {scene{pod: db0("data")}, "claim data does not exist", "Create the claim"},
		"one node of three":      {scene{pod: db0("data"), objects: []runtime.Object{testkit.Claim("data"), testkit.Volume("pv-1").OnHost("n3")}}, "its claims allow 1 of 3 nodes", "has not said anything"},
		"each on another node": {
			scene{pod: db0("data", "logs"), objects: []runtime.Object{testkit.Claim("data"), testkit.Claim("logs").Class("bulk"), testkit.Class("bulk"), testkit.Volume("pv-1").OnHost("n1"), testkit.Volume("pv-2").Class("bulk").OnHost("n2")}},
			"no node suits all its claims: no available volume fits claim data (10Gi, class local) on 2 of 3 nodes|claim logs (10Gi, class bulk) on 2 of 3 nodes", "Volume pv-1 fits, but",
		},
		"one claim is worse": {
			scene{pod: db0("data", "logs"), objects: []runtime.Object{testkit.Claim("data"), testkit.Volume("pv-1").OnHost("n1")}},
			"claim logs does not exist; no available volume fits claim data (10Gi, class local) on 2 of 3 nodes", "Create the claim",
		},
		"many claims are missing": {scene{pod: db0("a", "b", "c", "d", "e")}, "claim a does not exist; claim b does not exist; claim c does not exist; and so on with 2 more claims", "Create the claim"},
		"a volume left behind": {
			scene{pod: db0("data"), objects: []runtime.Object{testkit.Claim("data"), released}},
			"no available volume fits claim data", "Volume pv-1 would fit, but belongs to an earlier claim of this name|kubectl patch pv pv-1 ",
		},
		"no rights": {scene{pod: db0("data"), forbid: []string{"list nodes"}, objects: ok}, "which nodes its claims allow cannot be told with your rights", "Ask for the rights"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := tc.mustRun(t)
			wantWords(t, "verdict", report.Verdict, tc.verdict)
			wantWords(t, "next", report.Next, tc.next)
		})
	}
}

// A node where a new volume would help is closer than one that a claim's volume is not
// on, however many other claims refuse it.
func TestClosestFirst(t *testing.T) {
	logs := testkit.Claim("logs").Bound("pv-logs")
	report := scene{pod: db0("data", "more", "logs"), objects: []runtime.Object{
		testkit.Claim("data"), testkit.Claim("more"), logs,
		testkit.Volume("pv-logs").ClaimedBy(logs).OnHost("n2"), testkit.Volume("pv-1").OnHost("n1"), testkit.Volume("pv-2").OnHost("n1"), testkit.Volume("pv-3").OnHost("n3"),
	}}.mustRun(t)
	var got []string
	for _, node := range report.Nodes.Nodes {
		got = append(got, fmt.Sprintf("%s refused by %d", node.Node, node.Refused))
	}
	if diff := cmp.Diff([]string{"n2 refused by 2", "n1 refused by 1", "n3 refused by 2"}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
