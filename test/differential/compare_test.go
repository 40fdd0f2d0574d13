package differential

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// comparison is that of one pod on one node.
type comparison struct {
	prebind  *prebind
	upstream *upstream
	tally    *tally
	state    *state
	node     *v1.Node
	pod      *v1.Pod  // each claim once
	order    []string // volumes in the order in which prebind chose them
}

// run asks both and returns how they disagree, if they do.
//
// The claims in a situation that is listed as a difference are judged one by
// one. What is left of the pod must get the same answer from both: a plan that
// is the same claim by claim, or the same reason for each claim that stands in
// the way. As kube-scheduler stops at the first reason, it is asked about each
// such claim together with the claims that are no problem.
func (c *comparison) run(ctx context.Context) error {
	whole, order, err := c.prebind.says(ctx, c.state.pod, c.node)
	if err != nil {
		return err
	}
	c.order = order
	c.tally.verdict(whole)
	var times map[string]int
	c.pod, times = once(c.state.pod)
	restore, err := c.hideFewModes(ctx)
	defer restore()
	if err != nil {
		return err
	}
	if err := c.whole(ctx, whole, times); err != nil {
		return err
	}
	var good, bad []string
	for _, m := range mentions(c.pod) {
		different, err := c.different(ctx, m, whole)
		switch {
		case err != nil:
			return err
		case different:
		case !whole.fits() && whole.claims[m.name].what != "":
			bad = append(bad, m.name)
		default:
			good = append(good, m.name)
		}
	}
	return c.same(ctx, whole, good, bad)
}

// hideFewModes shows kube-scheduler, until restore is called, the volumes that
// are pre-bound to a claim of the pod and lack one of its access modes as those
// of a stranger: with them out of the way it must say what prebind says.
func (c *comparison) hideFewModes(ctx context.Context) (restore func(), err error) {
	var hidden []*v1.PersistentVolume
	restore = func() {
		for _, pv := range hidden {
			_ = c.upstream.volumes.store.Update(pv) // a map
		}
	}
	for _, m := range mentions(c.pod) {
		claim := c.state.claim(m.name)
		if !usable(c.pod, m, claim) || !c.state.delayed(claim) {
			continue
		}
		before := c.alone(ctx, m.name)
		for _, pv := range c.state.volumes {
			if volume.IsVolumeBoundToClaim(pv, claim) && !volume.CheckAccessModes(claim, pv) {
				hidden = append(hidden, pv)
				stranger := pv.DeepCopy()
				stranger.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: "stranger", UID: "stranger"}
				if err := c.upstream.volumes.store.Update(stranger); err != nil {
					return restore, err
				}
			}
		}
		if after := c.alone(ctx, m.name); after != before {
			c.tally.count(differs(fewModes))
			// Where the node can reach the volume it is chosen, else nothing is.
			if want := []what{static, dynamic, noVolume, noCapacity}; !slices.Contains(want, before.what) {
				return restore, fmt.Errorf("difference %q: kube-scheduler says of claim %s alone: %s; want one of %q", fewModes, m.name, before, want)
			}
		}
	}
	return restore, nil
}

// whole counts the differences that only show in the whole pod.
func (c *comparison) whole(ctx context.Context, ours verdict, times map[string]int) error {
	theirs := c.upstream.says(ctx, c.pod, c.node, c.order)
	if !theirs.fits() && len(theirs.refusals()) < len(ours.refusals()) {
		c.tally.count(differs(allReasons))
	}
	if len(times) == len(c.state.pod.Spec.Volumes) {
		return nil
	}
	if twice := c.upstream.says(ctx, c.state.pod, c.node, c.order); theirs.fits() && !maps.Equal(theirs.claims, twice.claims) {
		c.tally.count(differs(claimTwice))
	}
	return nil
}

// different looks whether the claim is in one of the listed situations, and
// if so whether both say what they should.
func (c *comparison) different(ctx context.Context, m mention, ours verdict) (bool, error) {
	claim := c.state.claim(m.name)
	if !usable(c.pod, m, claim) {
		return false, nil
	}
	s := &situation{
		state: c.state, node: c.node, claim: claim, volume: c.state.volume(claim.Spec.VolumeName),
		alone:     c.alone(ctx, m.name),
		completed: func() answer { return c.ifCompleted(ctx, claim) },
	}
	for _, d := range claimDifferences() {
		if !d.applies(s) {
			continue
		}
		c.tally.count(differs(d.name))
		if !slices.Contains(d.upstream, s.alone.what) {
			return true, fmt.Errorf("difference %q: kube-scheduler says of claim %s alone: %s; want one of %q", d.name, m.name, s.alone, d.upstream)
		}
		got, err := c.ours(ctx, ours, m.name)
		if err != nil {
			return true, err
		}
		if want := d.prebind(s); got.what != want {
			return true, fmt.Errorf("difference %q: prebind says of claim %s: %s; want %q: %s", d.name, m.name, got, want, d.why)
		}
		return true, nil
	}
	return false, nil
}

// ours returns our answer for one claim. A plan that is refused has none for
// the claims that are no problem, so those are asked for alone.
func (c *comparison) ours(ctx context.Context, whole verdict, claim string) (answer, error) {
	if a, ok := whole.claims[claim]; ok {
		return a, nil
	}
	alone, _, err := c.prebind.says(ctx, c.reduced(claim), c.node)
	return alone.of(claim), err
}

// reduced returns the pod with these claims alone.
func (c *comparison) reduced(claims ...string) *v1.Pod {
	return only(c.pod, func(name string) bool { return slices.Contains(claims, name) })
}

func (c *comparison) alone(ctx context.Context, claim string) answer {
	return c.upstream.says(ctx, c.reduced(claim), c.node, c.order).of(claim)
}

// ifCompleted asks about the claim alone, in a world in which it is bound.
func (c *comparison) ifCompleted(ctx context.Context, claim *v1.PersistentVolumeClaim) answer {
	twin := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&twin.ObjectMeta, volume.AnnBindCompleted, "yes")
	if err := c.upstream.claims.Update(twin); err != nil {
		return answer{what: what(err.Error())}
	}
	a := c.alone(ctx, claim.Name)
	if err := c.upstream.claims.Update(claim); err != nil {
		return answer{what: what(err.Error())}
	}
	return a
}

// same compares the claims in which no difference is meant: good ones, to
// which we have no objection, and bad ones.
func (c *comparison) same(ctx context.Context, whole verdict, good, bad []string) error {
	ours := whole
	if !whole.fits() {
		var err error
		if ours, err = c.planFor(ctx, good); err != nil {
			return err
		}
	}
	theirs, agree := c.ask(ctx, good, func(theirs verdict) bool {
		return theirs.fits() && !slices.ContainsFunc(good, func(name string) bool { return theirs.claims[name] != ours.claims[name] })
	})
	if !agree {
		return fmt.Errorf("of claims %v kube-scheduler says\n    %s\nand prebind\n    %s", good, theirs, ours)
	}
	for _, name := range bad {
		want := whole.claims[name]
		theirs, agree := c.ask(ctx, append(slices.Clip(good), name), func(theirs verdict) bool {
			return len(theirs.refused) == 1 && theirs.refused[0].what == want.what && sameWords(want.text, theirs.refused[0].text)
		})
		if !agree {
			return fmt.Errorf("of claim %s, beside %v, kube-scheduler says\n    %s\nand prebind\n    %s", name, good, theirs, want)
		}
	}
	return nil
}

// planFor returns our plan for a pod with the good claims alone, of which a
// plan that is refused says nothing. Our cache lists volumes in the order of a
// Go map too: where they are equally good another one may be chosen now, and
// leave none for the next claim, so this is tried again.
func (c *comparison) planFor(ctx context.Context, good []string) (plan verdict, err error) {
	for range 200 {
		if plan, c.order, err = c.prebind.says(ctx, c.reduced(good...), c.node); err != nil || plan.fits() {
			return plan, err
		}
	}
	return plan, fmt.Errorf("prebind has no objection to claims %v in the whole pod, but refuses a pod with no others: %s", good, plan)
}

// sameWords tells whether our text has kube-scheduler's words. It begins some
// reasons with the claim's name; we name the claim in another way.
func sameWords(ours, theirs string) bool {
	if strings.Contains(ours, theirs) {
		return true
	}
	_, rest, found := strings.Cut(theirs, `" `)
	return found && strings.HasPrefix(theirs, `persistentvolumeclaim "`) && strings.Contains(ours, rest)
}

// ask asks kube-scheduler about the claims. Where volumes are equally good its
// answer depends on the order in which its cache lists them, which is that of
// a Go map: any answer that it may give counts, and the volumes that prebind
// chose are tried first.
func (c *comparison) ask(ctx context.Context, claims []string, agrees func(verdict) bool) (verdict, bool) {
	pod := c.reduced(claims...)
	first := c.upstream.says(ctx, pod, c.node, c.order)
	if agrees(first) {
		return first, true
	}
	names := make([]string, 0, len(c.state.volumes))
	for _, pv := range c.state.volumes {
		names = append(names, pv.Name)
	}
	for order := range permutations(names) {
		if theirs := c.upstream.says(ctx, pod, c.node, order); agrees(theirs) {
			c.tally.count(otherTies)
			return theirs, true
		}
	}
	return first, false
}

// permutations yields every order of the names, each time in the same slice.
func permutations(names []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) { permute(names, len(names), yield) }
}

// permute is Heap's algorithm.
func permute(names []string, n int, yield func([]string) bool) bool {
	if n <= 1 {
		return yield(names)
	}
	for i := range n {
		if !permute(names, n-1, yield) {
			return false
		}
		if n%2 == 0 {
			names[i], names[n-1] = names[n-1], names[i]
		} else {
			names[0], names[n-1] = names[n-1], names[0]
		}
	}
	return true
}
