package differential

import (
	"flag"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMain raises rapid's number of checks, which is small, where the command
// line says nothing else.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "2000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestPlansAgreeWithUpstream(t *testing.T) {
	ours, theirs, seen := newPrebind(t), newUpstream(t), newTally()
	t.Cleanup(func() { t.Log(seen) })
	rapid.Check(t, func(rt *rapid.T) {
		s := drawState(rt)
		seen.states++
		if err := ours.caches.load(t.Context(), s); err != nil {
			rt.Fatal(err)
		}
		if err := theirs.load(s); err != nil {
			rt.Fatal(err)
		}
		for _, node := range s.nodes {
			c := comparison{prebind: ours, upstream: theirs, tally: seen, state: s, node: node}
			if err := c.run(t.Context()); err != nil {
				rt.Fatalf("node %s: %v\n\n%s", node.Name, err, s)
			}
		}
	})
	if gaps := seen.gaps(); len(gaps) > 0 {
		t.Errorf("seen too seldom:\n%s", strings.Join(gaps, "\n"))
	}
}
