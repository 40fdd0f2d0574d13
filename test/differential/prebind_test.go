package differential

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// prebind is a real Prebinder on real caches.
type prebind struct {
	*volumes.Prebinder
	caches *caches
	claim  *regexp.Regexp // the begin of what is said of one claim
}

func newPrebind(t *testing.T) *prebind {
	t.Helper()
	caches, err := newCaches()
	if err != nil {
		t.Fatal(err)
	}
	p, err := volumes.New(volumes.Config{Client: caches.client, Caches: caches.Caches})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	caches.Start(ctx)
	t.Cleanup(func() {
		cancel()
		caches.Wait()
	})
	for resource, synced := range caches.Synced() {
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, lagLimit, true, func(context.Context) (bool, error) { return synced(), nil })
		if err != nil {
			t.Fatalf("waiting for the cache of %s: %v", resource, err)
		}
	}
	return &prebind{Prebinder: p, caches: caches, claim: regexp.MustCompile(`(?:^|; )([A-Z]\w+): claim ` + namespace + `/([^ :]+)`)}
}

// says asks for the plan. order names the volumes of its static bindings, in
// the order in which they were chosen.
func (p *prebind) says(ctx context.Context, pod *v1.Pod, node *v1.Node) (v verdict, order []string, err error) {
	plan, err := p.Plan(ctx, pod, node.Name)
	v.claims = map[string]answer{}
	if err != nil {
		v, err = p.refusal(err)
		return v, nil, err
	}
	add := func(kind what, bindings []volumes.Binding) {
		for _, b := range bindings {
			a := answer{what: kind}
			if b.Volume != nil {
				a.volume = sized(b.Volume)
			}
			v.claims[b.Claim.Name] = a
		}
	}
	add(bound, plan.Bound)
	add(completing, plan.Completing)
	add(static, plan.Static)
	add(dynamic, plan.Dynamic)
	for _, b := range plan.Static {
		order = append(order, b.Volume.Name)
	}
	return v, order, nil
}

// refusal takes the text apart by claim: "Code: claim shop/c0: why; Code: claim ...".
func (p *prebind) refusal(refused error) (verdict, error) {
	v, text := verdict{claims: map[string]answer{}}, refused.Error()
	starts := p.claim.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 || starts[0][0] != 0 {
		return v, fmt.Errorf("this names no claim: %s", text)
	}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		code, claim, said := fault.Code(text[at[2]:at[3]]), text[at[4]:at[5]], text[at[2]:end]
		a, err := classify(code, said)
		if err != nil {
			return v, err
		}
		if _, twice := v.claims[claim]; twice {
			return v, fmt.Errorf("this names claim %s twice: %s", claim, text)
		}
		v.claims[claim] = a
		v.refused = append(v.refused, a)
	}
	return v, nil
}

// classify finds the refusal by its code, and insists on the words for it.
func classify(code fault.Code, said string) (answer, error) {
	for _, known := range reasons() {
		if known.code == code && strings.Contains(said, known.words) {
			return answer{what: known.what, text: said}, nil
		}
	}
	return answer{}, fmt.Errorf("this refusal is not known, or not in kube-scheduler's words: %s", said)
}
