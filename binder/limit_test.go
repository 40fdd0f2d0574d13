package binder_test

import (
	"slices"
	"testing"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// TestTooManyCalls: the call above the limit is refused at once, and place is
// made by any call that ends, also one that had joined another.
func TestTooManyCalls(t *testing.T) {
	const full = "TooManyCalls: this replica of prebind runs server.maxBindCalls (2) bind calls already; the scheduler tries again"
	bubble(t, func(t *testing.T) {
		e := startLimited(t, 2, posts, testkit.Pod("db-1"))
		g := &gate{open: make(chan error), heeds: true}
		e.spies["a"].do["preBind"] = g.pass
		first, joined := e.call(request("db-0")), e.call(request("db-0"))
		wantText(t, e.bind(request("db-1")), full)
		wantText(t, e.bind(request("")), full) // nothing is looked at
		joined.hangUp()
		joined.ends(hungUp)
		second := e.call(request("db-1"))
		second.waits()
		wantText(t, e.bind(request("db-1")), full)

		g.open <- nil
		g.open <- nil
		first.ends("")
		second.ends("")
		wantText(t, e.bind(request("db-0")), "") // on its node already
		if want := "prebind_bind_calls_total{outcome=error reason=TooManyCalls} 3"; !slices.Contains(e.samples(), want) {
			t.Errorf("no %s in %q", want, e.samples())
		}
		var lines int
		for _, entry := range e.logs.All() {
			if entry.ContextMap()["reason"] == string(fault.TooManyCalls) {
				lines++
			}
		}
		if lines != 3 {
			t.Errorf("%d log lines of 3 refusals", lines)
		}
	})
}
