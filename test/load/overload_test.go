package load_test

import (
	"slices"
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

// TestOverload: 4,000 calls that wait for a provisioner do not keep 1,000
// others from being bound, none of them is lost, and what one costs in memory
// is known.
func TestOverload(t *testing.T) {
	const waiting, plain, later = 4000, 1000, 300
	needFiles(t, 2*(waiting+plain))
	f := newFixture(t)
	node, class := f.node("a"), f.unserved()
	waiters, burst, rest := f.pods("waits", waiting, class), f.pods("plain", plain, ""), f.pods("later", later, "")

	prebind := f.prebind(controlplane.PrebindOptions{Name: "overload"})
	before := f.settled(prebind)
	c := newCaller(t, prebind.URL())
	c.start(node, slices.Concat(waiters, burst)...)
	c.await(f, burst)
	c.check("5,000 calls at once, those without claims", burst, map[string]int{"": plain})
	c.check("5,000 calls at once, those that wait", waiters, map[string]int{})
	c.times("no claims, among 5,000 calls sent at once", burst)
	f.selected(waiters)
	f.inFlight(prebind, waiting)

	// As a scheduler sends them, one after the other.
	for _, pod := range rest {
		c.call(node, pod)
	}
	c.check("while 4,000 wait, those without claims", rest, map[string]int{"": later})
	c.check("while 4,000 wait, those that wait", waiters, map[string]int{})
	c.times("no claims, one after the other, while 4,000 calls wait", rest)
	f.checkNodes(node, slices.Concat(burst, rest)...)
	f.checkNodes("", waiters...)

	f.checkMemory(prebind, before, waiting)

	// Half of the waits end with their pods, the others with prebind.
	gone, left := waiters[:waiting/2], waiters[waiting/2:]
	f.remove(gone)
	c.await(f, gone)
	c.checkGone("pods deleted", gone)
	c.check("pods that are left", left, map[string]int{})
	f.must(prebind.Stop(t.Context()))
	f.must(prebind.Err())
	c.running.Wait()
	c.check("after SIGTERM", left, map[string]int{"ShuttingDown": len(left)})
	c.checkGone("in the end", gone)
	f.checkNodes("", left...)
}

// checkMemory prints what a waiting call costs; the goal is 32 KiB. The bound
// is four times that, out of reach of how memory happens to be laid out: it is
// there for a call that keeps what it should have let go.
func (f *fixture) checkMemory(p *controlplane.Prebind, before memory, calls int) {
	f.t.Helper()
	const bound = 128 << 10
	now := f.settled(p)
	each := now.per(before, calls)
	const kib = 1 << 10
	f.t.Logf("measured: memory, before and with %d waiting calls: heap %.1f and %.1f MiB, stacks %.1f and %.1f MiB, resident %.1f and %.1f MiB",
		calls, before.heap/kib/kib, now.heap/kib/kib, before.stacks/kib/kib, now.stacks/kib/kib, before.resident/kib/kib, now.resident/kib/kib)
	f.t.Logf("measured: memory of a waiting call: heap %.1f KiB + stacks %.1f KiB = %.1f KiB; resident %.1f KiB",
		each.heap/kib, each.stacks/kib, (each.heap+each.stacks)/kib, each.resident/kib)
	if each.heap+each.stacks > bound {
		f.t.Errorf("a waiting call takes %.0f bytes, more than %d", each.heap+each.stacks, bound)
	}
}

// TestTooManyCalls: with server.maxBindCalls calls running, one more is told to
// come back, and can once another has ended.
func TestTooManyCalls(t *testing.T) {
	const limit, more = 10, 30
	f := newFixture(t)
	node, class := f.node("a"), f.unserved()
	waiters, others := f.pods("waits", limit, class), f.pods("other", more, "")
	prebind := f.prebind(controlplane.PrebindOptions{Name: "limited", Config: "server: {maxBindCalls: 10}"})
	c := newCaller(t, prebind.URL())
	c.start(node, waiters...)
	f.inFlight(prebind, limit)
	c.start(node, others...)
	c.await(f, others)
	c.check("above the limit", others, map[string]int{"TooManyCalls": more})
	c.check("below the limit", waiters, map[string]int{})
	if got := f.refusals(prebind, "TooManyCalls"); got != more {
		t.Errorf("prebind_bind_calls_total counts %d TooManyCalls, want %d", got, more)
	}
	f.checkNodes("", others...)

	f.remove(waiters[:1])
	c.await(f, waiters[:1])
	for _, pod := range others {
		if a := c.call(node, pod); a.text != "" {
			t.Errorf("pod %s, once there is room: %s", pod.Name, a.text)
		}
	}
	f.checkNodes(node, others...)
}
