package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tally counts what the states led to, so that a test that has come to try
// next to nothing does not go unseen.
type tally struct {
	states int // drawn
	plans  int // of a pod on a node
	seen   map[string]int
}

func newTally() *tally { return &tally{seen: map[string]int{}} }

func (t *tally) count(key string) { t.seen[key]++ }

// Keys of the tally.
const (
	feasible  = "plan: feasible"
	scored    = "score above 0"
	otherTies = "agreed only with equal volumes in another order"
)

func differs(name string) string { return "difference: " + name }
func planned(w what) string      { return "claim: " + string(w) }
func refused(w what) string      { return "refused: " + string(w) }

// verdict counts a verdict of ours.
func (t *tally) verdict(v verdict) {
	t.plans++
	if v.fits() {
		t.count(feasible)
		for _, a := range v.claims {
			t.count(planned(a.what))
		}
	}
	for _, w := range v.refusals() {
		t.count(refused(w))
	}
}

// floor is how often, at least, each key must be seen in a thousand plans.
// What is not listed here needs only to be seen at all.
func floor() map[string]float64 {
	return map[string]float64{
		feasible: 100, scored: 20, planned(static): 30, planned(dynamic): 30, planned(bound): 20,
		refused(noVolume): 50, refused(nodeConflict): 20, refused(unbound): 20, refused(noCapacity): 10,
	}
}

// enough is how many states it takes until everything must have come up.
const enough = 1500

// gaps lists what was seen too seldom.
func (t *tally) gaps() []string {
	if t.states < enough {
		return nil
	}
	var gaps []string
	wanted := floor()
	wanted[planned(completing)] = 0
	for _, r := range reasons() {
		if r.code != "" {
			wanted[refused(r.what)] += 0
		}
	}
	for _, name := range differenceNames() {
		wanted[differs(name)] = 0
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		least := max(1, int(wanted[key]*float64(t.plans)/1000))
		if t.seen[key] < least {
			gaps = append(gaps, fmt.Sprintf("%s: %d times, want at least %d", key, t.seen[key], least))
		}
	}
	return gaps
}

// String is a line a key.
func (t *tally) String() string {
	lines := []string{fmt.Sprintf("%d states, %d plans of a pod on a node", t.states, t.plans)}
	for _, key := range slices.Sorted(maps.Keys(t.seen)) {
		lines = append(lines, fmt.Sprintf("%8d  %s", t.seen[key], key))
	}
	return strings.Join(lines, "\n")
}
