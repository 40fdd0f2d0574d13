package explain_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// TestAgreesWithTheService draws clusters and asks about each node: the service, whose
// caches are fed by watches, in a filter call; and explain, which reads once, as a
// user would run it. They must agree on every node, and explain must give the same
// answer for a node alone as among all.
func TestAgreesWithTheService(t *testing.T) {
	seen := map[string]int{}
	check := func(rt *rapid.T) {
		pod, objects := drawCluster(rt)
		problem := ""
		synctest.Test(t, func(t *testing.T) { problem = disagreement(t, pod, objects, seen) })
		if problem != "" {
			rt.Fatal(problem)
		}
	}
	for range 4 { // times rapid's usual 100
		rapid.Check(t, check)
	}
	t.Logf("seen: %v", seen)
	for _, kind := range []string{"yes", "no", "bound", "binding", "bind", "provision", "NoVolume", "NoCapacity", "NodeConflict", "SelectedNodeConflict", "ClaimUnbound", "ClaimNotFound"} {
		if seen[kind] == 0 {
			t.Errorf("nothing was %q", kind)
		}
	}
}

// disagreement tells what differs, or "".
func disagreement(t *testing.T, pod testkit.PodBuilder, objects []runtime.Object, seen map[string]int) string {
	api := testkit.NewAPI(t, append(objects, pod)...)
	filtered := filter(t, api, pod.Pod)
	all, err := explain.Run(t.Context(), explain.Options{Client: api.Client, Namespace: pod.Namespace, Pod: pod.Name, AllNodes: true, Now: time.Unix(now, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Nodes.Nodes) != len(filtered) {
		return fmt.Sprintf("explain knows nodes %v, the service %v", all.Nodes.Nodes, filtered)
	}
	for _, node := range all.Nodes.Nodes {
		seen[node.Fits]++
		if why := filtered[node.Node]; (node.Fits == "yes") != (why == "") {
			return fmt.Sprintf("node %s: explain says %s %+v, the service %q", node.Node, node.Fits, node.Claims, why)
		}
		one, err := explain.Run(t.Context(), explain.Options{Client: api.Client, Namespace: pod.Namespace, Pod: pod.Name, Node: node.Node, Now: time.Unix(now, 0)})
		if err != nil {
			t.Fatal(err)
		}
		for i, claim := range one.Claims {
			seen[claim.OnNode.Outcome]++
			seen[claim.OnNode.Code]++
			if *claim.OnNode != node.Claims[i] {
				return fmt.Sprintf("node %s alone: %+v, among all: %+v", node.Node, *claim.OnNode, node.Claims[i])
			}
			if (len(claim.Reasons) == 0) != (claim.State == "Bound" && claim.OnNode.Outcome == "bound") {
				return fmt.Sprintf("node %s: claim %s is %s and %s, and the reasons are %q", node.Node, claim.Claim, claim.State, claim.OnNode.Outcome, claim.Reasons)
			}
		}
	}
	return ""
}

// filter asks the service about all nodes.
func filter(t *testing.T, api *testkit.API, pod *v1.Pod) map[string]string {
	caches, err := volumes.NewCaches(api.Client)
	if err != nil {
		t.Fatal(err)
	}
	p, err := volumes.New(volumes.Config{Client: api.Client, Caches: caches})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer caches.Wait()
	defer cancel()
	caches.Start(ctx)
	synctest.Wait()
	var nodes []volumes.Node
	for _, name := range api.Names("nodes") {
		nodes = append(nodes, volumes.Node{Name: name})
	}
	reasons, err := p.Filter(ctx, pod, nodes)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]string{}
	for i, node := range nodes {
		answer[node.Name] = reasons[i]
	}
	return answer
}

// drawCluster draws a pod with claims in any state, and what they depend on.
func drawCluster(t *rapid.T) (testkit.PodBuilder, []runtime.Object) {
	one := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	objects := []runtime.Object{
		testkit.Node("n1").Label(v1.LabelTopologyZone, "a"), testkit.Node("n2").Label(v1.LabelTopologyZone, "a"), testkit.Node("n3").Label(v1.LabelTopologyZone, "b"),
		testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"), testkit.Class("zoned").Provisions("csi.example.com").Within(v1.LabelTopologyZone, "b"),
		testkit.Class("now").Provisions("csi.example.com").Immediate(), testkit.Driver("csi.example.com", rapid.Bool().Draw(t, "checks capacity")),
		testkit.Capacity("c-a", "fast", one("room a", "1Gi", "10Gi")).For(v1.LabelTopologyZone, "a"), testkit.Capacity("c-b", "zoned", one("room b", "1Gi", "10Gi")).For(v1.LabelTopologyZone, "b"),
	}
	pod, claims := testkit.Pod("db-0"), []testkit.ClaimBuilder{}
	for i := range rapid.IntRange(1, 3).Draw(t, "claims") {
		claim := testkit.Claim(fmt.Sprint("c-", i)).Class(one("class", "local", "local", "local", "fast", "fast", "zoned", "now", "gone")).Size(one("size", "1Gi", "5Gi", "10Gi"))
		pod.Uses(claim.Name)
		claims = append(claims, claim)
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "volumes") {
		pv := testkit.Volume(fmt.Sprint("pv-", i)).Class(one("class", "local", "local", "fast")).Size(one("size", "1Gi", "5Gi", "10Gi"))
		switch place := one("place", "n1", "n2", "n3", "a", "b", ""); place {
		case "a", "b":
			pv.Within(v1.LabelTopologyZone, place)
		case "":
		default:
			pv.OnHost(place)
		}
		claim := claims[rapid.IntRange(0, len(claims)-1).Draw(t, "claim")]
		switch one("state", "free", "free", "free", "another's", "pre-bound", "half bound", "bound", "left behind", "not Available", "read-only") {
		case "another's":
			pv.ClaimedBy(testkit.Claim("other"))
		case "pre-bound":
			pv.PreBound(claim.Name)
		case "half bound":
			pv.ClaimedBy(claim)
			if claim.Spec.VolumeName == "" && rapid.Bool().Draw(t, "on both sides") {
				claim.Names(pv.Name)
			}
		case "bound":
			if claim.Spec.VolumeName == "" {
				pv.ClaimedBy(claim)
				claim.Bound(pv.Name)
			}
		case "left behind":
			pv.ClaimedByUID(claim.Name, "earlier").Phase(v1.VolumeReleased)
		case "not Available":
			pv.Phase(v1.VolumePending)
		case "read-only":
			pv.Modes(v1.ReadOnlyMany)
		}
		objects = append(objects, pv)
	}
	for _, claim := range claims {
		switch one("state", "as it is", "as it is", "as it is", "as it is", "as it is", "as it is", "as it is", "as it is", "selected", "lost", "names none", "terminating", "missing") {
		case "missing":
			continue
		case "selected":
			claim.Selected(one("selected", "n1", "n3", "n9"))
		case "lost":
			claim.Bound("pv-9").Lost()
		case "names none":
			claim.Names("pv-9")
		case "terminating":
			claim.Terminating()
		}
		objects = append(objects, claim)
	}
	return pod, objects
}
