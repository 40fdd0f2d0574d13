package volumes

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// TestExplainAgreesWithPlans explains pods with claims in every state, in caches
// that change at random, with volumes reserved. Explain must say that a node fits
// exactly where there is a plan and a filter call lets it pass, and must leave a
// volume without a refusal exactly where the plan binds the claim to one.
func TestExplainAgreesWithPlans(t *testing.T) {
	CheckTimes(t, "60", "3000")
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newIndexWorld(t, seen)
		w.put(t, "storageclasses", testkit.Class("now").Provisions("csi.example.com").Immediate().StorageClass)
		t.Repeat(map[string]func(*rapid.T){
			"":             w.checkExplain,
			"put volume":   w.putVolume,
			"put volumes":  func(t *rapid.T) { w.putVolume(t); w.putVolume(t); w.putVolume(t) },
			"put capacity": w.putCapacity,
			"relabel node": w.relabelNode,
			"state":        w.changeState,
			"another":      w.changeState,
			"reserve":      w.reserve,
			"release":      w.release,
			"write":        w.writeUnchecked,
		})
	})
	t.Logf("seen: %v", seen)
	kinds := []string{"bound", "binding", "bind", "provision", "refused", "Bound", "Binding", "Pending", "Provisioning", "Lost", "Missing", "Terminating", "VolumeMissing", "VolumeMismatch"}
	for _, why := range refusals() {
		if why != RefusedOther {
			kinds = append(kinds, string(why))
		}
	}
	for _, kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("nothing was %q", kind)
		}
	}
	if n := seen[string(RefusedOther)]; n > 0 {
		t.Errorf("%d times the plan's judge refused a volume with which nothing was wrong", n)
	}
}

// writeUnchecked claims a reserved volume, as another replica or this one.
func (w *indexWorld) writeUnchecked(t *rapid.T) {
	if pv := w.p.caches.volume(w.volumeName(t)); pv != nil && pv.Spec.ClaimRef == nil {
		claimed := pv.DeepCopy()
		testkit.VolumeBuilder{PersistentVolume: claimed}.ClaimedBy(testkit.Claim(w.claimName(t)))
		w.put(t, "persistentvolumes", claimed)
	}
}

// changeState gives a claim any of the states that a claim may have.
func (w *indexWorld) changeState(t *rapid.T) {
	claim := testkit.ClaimBuilder{PersistentVolumeClaim: drawPVC(t, w.claimName(t))}
	pv := w.volumeName(t)
	switch rapid.IntRange(0, 12).Draw(t, "state") {
	case 0:
		claim.Bound(pv)
		if now := w.p.caches.volume(pv); now != nil {
			own := now.DeepCopy()
			testkit.VolumeBuilder{PersistentVolume: own}.ClaimedBy(claim)
			w.put(t, "persistentvolumes", own)
		}
	case 1:
		claim.Bound(pv)
	case 2:
		claim.Bound("gone")
	case 3:
		claim.Names(pv)
		if now := w.p.caches.volume(pv); now != nil {
			own := now.DeepCopy()
			testkit.VolumeBuilder{PersistentVolume: own}.ClaimedBy(claim)
			w.put(t, "persistentvolumes", own)
		}
	case 4:
		claim.Bound("gone").Lost()
	case 5:
		claim.Terminating()
	case 6:
		claim.Selected(rapid.SampledFrom([]string{"n1", "n2", "gone"}).Draw(t, "selected"))
	case 7:
		claim.Class(rapid.SampledFrom([]string{"now", "gone", ""}).Draw(t, "class"))
	case 8:
		if err := w.store("persistentvolumeclaims").Delete(claim.PersistentVolumeClaim); err != nil {
			t.Fatal(err)
		}
		return
	}
	w.put(t, "persistentvolumeclaims", claim.PersistentVolumeClaim)
}

func (w *indexWorld) checkExplain(t *rapid.T) {
	for _, claims := range [][]string{{"c-0"}, {"c-1"}, {"c-2", "c-3"}, {"c-0", "c-1", "c-2", "c-3"}} {
		pod := testkit.Pod("p").Uses(claims...).Pod
		all, err := w.p.Explain(t.Context(), pod, w.nodes)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]Node, 0, len(w.nodes))
		for _, node := range w.nodes {
			names = append(names, Node{Name: node.Name})
		}
		filtered, err := w.p.judge(t.Context(), pod, names)
		if err != nil {
			t.Fatal(err)
		}
		for i, node := range w.nodes {
			one, err := w.p.Explain(t.Context(), pod, []*v1.Node{node})
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(one.Nodes[0], all.Nodes[i]); diff != "" {
				t.Fatalf("alone and among all nodes (-alone +all):\n%s", diff)
			}
			_, planErr := w.byIndex(t, pod, node)
			if fits := one.Nodes[0].Fits(); fits != (planErr == nil) || fits != (filtered.reasons[i] == "") {
				t.Fatalf("claims %v on node %s: fits %t, but the plan says %v and the filter %q\n%s", claims, node.Name, fits, planErr, filtered.reasons[i], w.show())
			}
			if why := said(one); why != filtered.reasons[i] && !hopeless(one) {
				t.Fatalf("claims %v on node %s: refused for %q, by a filter call for %q", claims, node.Name, why, filtered.reasons[i])
			}
			w.checkOutcomes(t, pod, node, one)
		}
	}
}

// said is what a filter call says of the only node.
func said(e *Explanation) string {
	var reasons []string
	for i := range e.Nodes[0].Claims {
		if o := &e.Nodes[0].Claims[i]; o.Kind == OutcomeRefused {
			reasons = append(reasons, o.Reason)
		}
	}
	return joinReasons(reasons)
}

// hopeless tells whether a claim is against every node: a filter call then says no
// more.
func hopeless(e *Explanation) bool {
	return slices.ContainsFunc(e.Claims, func(c ExplainedClaim) bool { return c.Code != "" })
}

// checkOutcomes compares with the plan, whole or not.
func (w *indexWorld) checkOutcomes(t *rapid.T, pod *v1.Pod, node *v1.Node, e *Explanation) {
	gathered, err := w.p.gather(t.Context(), &reader{caches: w.p.caches}, pod)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := gathered.on(node)
	if err != nil {
		t.Fatal(err)
	}
	plan, problems := makePlan(facts)
	for i := range e.Claims {
		c, outcome := &e.Claims[i], &e.Nodes[0].Claims[i]
		w.seen[string(outcome.Kind)]++
		w.seen[string(c.State)]++
		if c.State != StateBound && c.WaitsFor == "" && c.State != StateLost && c.State != StateVolumeMismatch {
			t.Fatalf("claim %s is %s and waits for nothing", c.Name, c.State)
		}
		at := slices.IndexFunc(problems, func(p problem) bool { return p.claim.Name == c.Name })
		if refused := outcome.Kind == OutcomeRefused; refused != (at >= 0) || (refused && outcome.Code != problems[at].Code) {
			t.Fatalf("claim %s: outcome %+v, problems %v", c.Name, outcome, problems)
		}
		at = slices.IndexFunc(plan.Static, func(b Binding) bool { return b.Claim.Name == c.Name })
		if binds := outcome.Kind == OutcomeBind; binds != (at >= 0) || (binds && outcome.Volume != plan.Static[at].Volume) {
			t.Fatalf("claim %s: outcome %+v, plan %s", c.Name, outcome, showPlan(plan, nil))
		}
		w.checkCandidates(t, node, c, outcome)
	}
}

func (w *indexWorld) checkCandidates(t *rapid.T, node *v1.Node, c *ExplainedClaim, outcome *Outcome) {
	found := c.Candidates
	if found == nil {
		if outcome.Kind == OutcomeBind {
			t.Fatalf("claim %s binds to %s, and no volume was considered", c.Name, outcome.Volume.Name)
		}
		return
	}
	all := found.Fitting
	for _, count := range found.Counts {
		all += count.Count
		w.seen[string(count.Why)] += count.Count
	}
	if all != found.Considered || all != len(w.all()) {
		t.Fatalf("claim %s: %d volumes, %d of them considered, %d told", c.Name, len(w.all()), found.Considered, all)
	}
	for _, refused := range found.Nearest {
		if len(refused.Why) == 0 || len(refused.Why) != len(refused.Details) {
			t.Fatalf("volume %s is refused for nothing: %+v", refused.Volume.Name, refused)
		}
	}
	if outcome.Code == fault.ClaimUnbound {
		return // the PV controller's
	}
	fits := slices.Contains(found.Fit, outcome.Volume)
	if binds := outcome.Kind == OutcomeBind; binds != (found.Fitting > 0) || (binds && len(found.Fit) == found.Fitting && !fits) {
		t.Fatalf("claim %s on node %s %v: outcome %s %s, fitting %v\nclaim: %s\nvolumes:\n%s", c.Name, node.Name, node.Labels,
			outcome.Kind, outcome.Cause, found.Fit, fmt.Sprint(c.Claim.Spec, c.Claim.Annotations), w.show())
	}
}
