package differential

import (
	"context"
	"flag"
	"fmt"
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
	failed := false
	rapid.Check(t, func(rt *rapid.T) {
		s := drawState(rt)
		seen.states++
		if err := ours.caches.load(t.Context(), s); err != nil {
			rt.Fatal(err)
		}
		if err := theirs.load(s); err != nil {
			rt.Fatal(err)
		}
		if err := ours.filter(t.Context(), s); err != nil {
			rt.Fatalf("%v\n\n%s", err, s)
		}
		if err := sameScores(t.Context(), ours, theirs, s, seen); err != nil {
			rt.Fatalf("%v\n\n%s", err, s)
		}
		for round := range rounds(s, failed) {
			tally := seen
			if round > 0 {
				tally = newTally() // it would count the same again
			}
			if err := compareNodes(t.Context(), ours, theirs, s, tally); err != nil {
				failed = true
				rt.Fatalf("%v\n\n%s", err, s)
			}
		}
	})
	if gaps := seen.gaps(); len(gaps) > 0 {
		t.Errorf("seen too seldom:\n%s", strings.Join(gaps, "\n"))
	}
}

// rounds is how often a state is looked at. Where volumes are equally good the
// choice is that of a Go map, so a failure may need some rounds to show; once
// there is one it must show again in each state that it is shrunk to.
func rounds(s *state, failed bool) int {
	switch {
	case !s.hasTies():
		return 1
	case failed:
		return 32
	}
	return 4
}

func compareNodes(ctx context.Context, ours *prebind, theirs *upstream, s *state, seen *tally) error {
	for _, node := range s.nodes {
		c := comparison{prebind: ours, upstream: theirs, tally: seen, state: s, node: node}
		if err := c.run(ctx); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return nil
}
