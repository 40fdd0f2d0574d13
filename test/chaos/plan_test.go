package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// someSeeds are enough for each kind of pod to come often.
func someSeeds(t *testing.T, check func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { check(t, seed) })
	}
}

func TestSameSeedGivesTheSameRun(t *testing.T) {
	someSeeds(t, func(t *testing.T, seed uint64) {
		one, two := newWorkload(seed, 100, time.Minute, ns, "disks"), newWorkload(seed, 100, time.Minute, ns, "disks")
		if diff := cmp.Diff(one, two, cmp.AllowUnexported(workload{}), cmpopts.IgnoreTypes(metav1.Time{})); diff != "" {
			t.Errorf("two workloads of one seed differ (-one +two):\n%s", diff)
		}
		kills := func() []kill { return planKills(dice(seed, "kill x"), time.Minute, time.Second, 5*time.Second) }
		if diff := cmp.Diff(kills(), kills(), cmp.AllowUnexported(kill{})); diff != "" {
			t.Errorf("two plans of one seed differ (-one +two):\n%s", diff)
		}
	})
}

func TestEachProgramIsKilledTwiceAtLeastAndInTime(t *testing.T) {
	someSeeds(t, func(t *testing.T, seed uint64) {
		for _, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
			kills := planKills(dice(seed, "kill x"), window, time.Second, 5*time.Second)
			if len(kills) < 2 {
				t.Errorf("%d kills in %s, want 2 at least", len(kills), window)
			}
			for i, k := range kills {
				if k.at > window || i > 0 && k.at < kills[i-1].at || k.down < time.Second || k.down > 5*time.Second {
					t.Errorf("kill %d of %v in %s is late, out of order or too long", i, kills, window)
				}
			}
		}
	})
}

// TestWorkloadCanBeBound checks what the end of a run rests on (see the package comment).
func TestWorkloadCanBeBound(t *testing.T) {
	someSeeds(t, func(t *testing.T, seed uint64) {
		w := newWorkload(seed, 300, time.Minute, ns, "disks")
		if got := len(w.possible()); got != 300 {
			t.Errorf("%d pods can be bound, want 300", got)
		}
		class := map[string]string{}
		for _, claim := range w.claims {
			class[claim.Name] = *claim.Spec.StorageClassName
		}
		wanted := map[string]int{}
		counted := map[string]bool{}
		for _, pod := range w.pods {
			if impossible(pod) {
				continue
			}
			uses := map[string]int{}
			for _, name := range claimNames(pod) {
				kind, zone := class[name], pod.Spec.NodeSelector[corev1.LabelTopologyZone]
				uses[kind]++
				if kind == zoneDisks {
					kind += zone
				}
				if !counted[name] {
					wanted[kind]++
				}
				counted[name] = true
			}
			checkUses(t, pod, uses)
		}
		for kind, have := range pools(w) {
			if have != wanted[kind]+spare {
				t.Errorf("there are %d volumes of %s for %d claims, want %d spare", have, kind, wanted[kind], spare)
			}
		}
	})
}

func checkUses(t *testing.T, pod *corev1.Pod, uses map[string]int) {
	t.Helper()
	claims := len(claimNames(pod))
	switch {
	case claims < 1 || claims > 3:
		t.Errorf("pod %s has %d claims", pod.Name, claims)
	case uses[zoneDisks] > 0 && (uses[zoneDisks] != claims || pod.Spec.NodeSelector[corev1.LabelTopologyZone] == ""):
		t.Errorf("pod %s has claims in a zone that it does not ask for, or others: %v", pod.Name, uses)
	case uses[localDisks] > 1, uses[localDisks] == 1 && uses[flakyLocal] > 0:
		t.Errorf("pod %s is tied to nodes by two claims: %v", pod.Name, uses)
	}
}

// pools counts the volumes of each pool.
func pools(w *workload) map[string]int {
	have := map[string]int{}
	for _, volume := range w.volumes {
		kind := volume.Spec.StorageClassName
		if kind == zoneDisks {
			kind += strings.Split(volume.Name, "-")[1]
		}
		have[kind]++
	}
	return have
}

func TestLocalVolumesAreWhereProvisioningWorks(t *testing.T) {
	w := newWorkload(1, 100, time.Minute, ns, "disks")
	var failing []string
	for _, class := range w.classes {
		if nodes := class.Parameters["failNodes"]; nodes != "" {
			failing = strings.Split(nodes, ",")
		}
	}
	if len(failing) != 3 {
		t.Fatalf("provisioning always fails on %v, want a node of each of 3 zones", failing)
	}
	for _, volume := range w.volumes {
		if volume.Spec.StorageClassName != localDisks {
			continue
		}
		if node := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; slices.Contains(failing, node) {
			t.Errorf("volume %s is on node %s, where provisioning always fails", volume.Name, node)
		}
	}
}
