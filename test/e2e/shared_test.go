package e2e_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// One claim, many pods.
func TestManyPodsWithOneClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mode    v1.PersistentVolumeAccessMode
		dynamic bool
		pods    int
	}{
		"RWX, static":      {v1.ReadWriteMany, false, 10},
		"RWX, provisioned": {v1.ReadWriteMany, true, 10},
		"RWO, provisioned": {v1.ReadWriteOnce, true, 3},
		// That only one pod may use it is for the scheduler's VolumeRestrictions.
		"RWOP, static": {v1.ReadWriteOncePod, false, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			modes := []v1.PersistentVolumeAccessMode{tc.mode}
			class := f.dynamic("d")
			if !tc.dynamic {
				class = f.class(newLocalClass("local"))
				for i := range 3 { // more than are needed
					f.volume(newVolume(fmt.Sprintf("pv%d", i), class, node, func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }))
				}
			}
			f.claim(newClaim("data", class, func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = modes }))
			var pods []*v1.Pod
			var answers []<-chan string
			for i := range tc.pods {
				pods = append(pods, f.pod(newPod(fmt.Sprintf("p%d", i), nobody, "data")))
			}
			for _, pod := range pods {
				answers = append(answers, f.start(pod, node))
			}
			for i, answer := range answers {
				if text := f.answer(answer); text != "" {
					t.Fatalf("pod %s: %s", pods[i].Name, text)
				}
				f.checkBound(pods[i], node)
			}
			claimed := 0
			for _, pv := range f.snapshot().volumes {
				if pv.Spec.ClaimRef != nil {
					claimed++
				}
			}
			if claimed != 1 {
				t.Errorf("%d volumes were claimed for one claim", claimed)
			}
		})
	}
}

// Two pods with one claim are sent to two nodes at once; its volume can only
// be on one.
func TestOneClaimIsWantedOnTwoNodes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"static", "provisioned"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			nodes := []string{f.node("a", nil), f.node("b", nil)}
			class := f.dynamic("d")
			if kind == "static" {
				class = f.class(newLocalClass("local"))
				f.volume(newVolume("a", class, nodes[0]))
				f.volume(newVolume("b", class, nodes[1]))
			}
			f.claim(newClaim("data", class))
			var pods []*v1.Pod
			var answers []<-chan string
			for i := range 4 {
				pods = append(pods, f.pod(newPod(fmt.Sprintf("p%d", i), nobody, "data")))
			}
			for i, pod := range pods {
				answers = append(answers, f.start(pod, nodes[i%2]))
			}
			bound := map[string]int{}
			for i, answer := range answers {
				text := f.answer(answer)
				if text == "" {
					f.checkBound(pods[i], nodes[i%2])
					bound[nodes[i%2]]++
					continue
				}
				f.endedWith(text, "NodeConflict", "SelectedNodeConflict", "NoVolume")
			}
			if len(bound) != 1 {
				t.Errorf("pods bound by node: %v, want them on one node", bound)
			}
			for node := range bound {
				if selected := f.selectedNode("data"); kind == "provisioned" && selected != node {
					t.Errorf("selected-node is %s, the pods are on %s", selected, node)
				}
			}
		})
	}
}

// More pods than volumes, each with a claim of its own, all at once: each
// volume goes to one, and the others are told so.
func TestS01_MorePodsThanVolumes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	const volumes, calls = 4, 12
	for i := range volumes {
		f.volume(newVolume(fmt.Sprintf("pv%d", i), class, node))
	}
	var pods []*v1.Pod
	for i := range calls {
		name := fmt.Sprintf("p%d", i)
		f.claim(newClaim(name, class))
		pods = append(pods, f.pod(newPod(name, nobody, name)))
	}
	var answers []<-chan string
	for _, pod := range pods {
		answers = append(answers, f.start(pod, node))
	}
	winners := 0
	for i, answer := range answers {
		text := f.answer(answer)
		if text == "" {
			winners++
			f.checkBound(pods[i], node)
			continue
		}
		f.checkRefused(text, "NoVolume", "claim "+f.ns+"/"+pods[i].Name)
		f.untouched(pods[i].Name)
	}
	if winners != volumes {
		t.Errorf("%d pods were bound to %d volumes", winners, volumes)
	}
}

// Two pods each need two claims on two volumes: one gets both, or neither;
// never one each.
func TestTwoPodsWithTwoClaimsOnTwoVolumes(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("one", class, node))
			f.volume(newVolume("two", class, node))
			var pods []*v1.Pod
			for _, name := range []string{"x", "y"} {
				f.claim(newClaim(name+"1", class))
				f.claim(newClaim(name+"2", class))
				pods = append(pods, f.pod(newPod(name, nobody, name+"1", name+"2")))
			}
			x, y := f.start(pods[0], node), f.start(pods[1], node)
			won, lost := pods[0], pods[1]
			first, second := f.answer(x), f.answer(y)
			if first != "" {
				won, lost, first, second = lost, won, second, first
			}
			if first != "" {
				t.Fatalf("neither pod was bound: %s; %s", first, second)
			}
			f.checkBound(won, node)
			f.checkRefused(second, "NoVolume")
			f.untouched(lost.Name+"1", lost.Name+"2")
		})
	}
}

func TestPodsOfOneNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	f, g := newFixture(t), newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("one", class, node))
	f.volume(newVolume("two", class, node))
	f.claim(newClaim("data", class))
	g.claim(newClaim("data", class))
	mine, theirs := f.pod(newPod("web", nobody, "data")), g.pod(newPod("web", nobody, "data"))
	one, two := f.start(mine, node), g.start(theirs, node)
	for _, text := range []string{f.answer(one), g.answer(two)} {
		if text != "" {
			t.Fatal(text)
		}
	}
	f.checkBound(mine, node)
	g.checkBound(theirs, node)
	if f.getClaim("data").Spec.VolumeName == g.getClaim("data").Spec.VolumeName {
		t.Errorf("both claims are bound to %s", g.getClaim("data").Spec.VolumeName)
	}
	if selected := f.getClaim("data").Annotations[volume.AnnSelectedNode]; selected != "" {
		t.Errorf("selected-node %s was written for a static claim", selected)
	}
}
