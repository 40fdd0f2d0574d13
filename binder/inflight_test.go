package binder_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// gate is a plugin's work that ends when the test says so, or with its context
// if it heeds it.
type gate struct {
	open  chan error
	heeds bool
	cause error // of the context, if that ended it
}

func (g *gate) pass(ctx context.Context, _ *binder.Call) error {
	done := ctx.Done()
	if !g.heeds {
		done = nil
	}
	select {
	case err := <-g.open:
		return err
	case <-done:
		g.cause = context.Cause(ctx)
		return g.cause
	}
}

// gated returns an env whose plugin a waits in preBind.
func gated(t *testing.T, heeds bool) (*env, *gate) {
	t.Helper()
	e := start(t, plugins{binder.PreBind: {"a"}, binder.Bind: {"b"}}, testkit.Node("node-8"), testkit.Pod("db-1"))
	g := &gate{open: make(chan error), heeds: heeds}
	e.spies["a"].do["preBind"] = g.pass
	return e, g
}

func elsewhere(pod string) binder.Request {
	req := request(pod)
	req.Node = "node-8"
	return req
}

func TestASecondCallForTheSamePodAndNodeJoinsTheFirst(t *testing.T) {
	for name, result := range map[string]error{"bound": nil, "failed": fault.New(fault.NoVolume, "none")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, g := gated(t, true)
				first, second := e.call(request("db-0")), e.call(request("db-0"))
				e.did("preBind a")
				g.open <- result
				want := ""
				if result != nil {
					want = `NoVolume: none [running PreBind plugin "a"]`
				}
				first.ends(want)
				second.ends(want)
				if !errors.Is(first.err, result) || !errors.Is(second.err, result) {
					t.Errorf("errors %v, %v", first.err, second.err)
				}
				if n := len(e.journal.read()); (result == nil && n != 2) || (result != nil && n != 1) {
					t.Errorf("plugins: %v", e.journal.read())
				}
			})
		})
	}
}

func TestACallForAnotherNodeWaitsUntilTheFirstHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		first, second := e.call(request("db-0")), e.call(elsewhere("db-0"))
		e.did("preBind a")
		g.open <- errors.New("no")
		first.ends(`Internal: running PreBind plugin "a": no`)
		second.waits()
		e.did("preBind a", "preBind a")
		g.open <- nil
		second.ends("")
	})
}

func TestCallsForOtherPodsDoNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		first, second := e.call(request("db-0")), e.call(request("db-1"))
		e.did("preBind a", "preBind a")
		g.open <- nil
		g.open <- nil
		first.ends("")
		second.ends("")
	})
}

func TestACycleEndsWhenItsCallerHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		call := e.call(request("db-0"))
		call.hangUp()
		call.ends(hungUp)
		if code := fault.CodeOf(g.cause); code != fault.CallerGone {
			t.Errorf("the cycle ended with %v", g.cause)
		}
	})
}

func TestACycleLivesAsLongAsOneOfItsCallers(t *testing.T) {
	tests := map[string]func(e *env, g *gate, first, second *caller){
		"the first goes, the one that joined gets the result": func(_ *env, g *gate, first, second *caller) {
			first.hangUp()
			first.ends(hungUp)
			second.waits()
			g.open <- nil
			second.ends("")
		},
		"the one that joined goes, the first gets the result": func(_ *env, g *gate, first, second *caller) {
			second.hangUp()
			second.ends(hungUp)
			first.waits()
			g.open <- nil
			first.ends("")
		},
		"both go": func(e *env, g *gate, first, second *caller) {
			first.hangUp()
			second.waits()
			second.hangUp()
			second.ends(hungUp)
			if code := fault.CodeOf(g.cause); code != fault.CallerGone {
				e.t.Errorf("the cycle ended with %v", g.cause)
			}
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, g := gated(t, true)
				first, second := e.call(request("db-0")), e.call(request("db-0"))
				happens(e, g, first, second)
				if n := len(e.journal.read()); n > 2 {
					t.Errorf("plugins: %v", e.journal.read())
				}
			})
		})
	}
}

// The scheduler calls again while the cycle that it hung up on still winds
// down: it must not get that one's CallerGone.
func TestAnEndingCycleIsNotJoined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, false) // takes no notice of its context
		gone := e.call(request("db-0"))
		gone.hangUp()
		gone.ends(hungUp)
		again := e.call(request("db-0"))
		e.did("preBind a")
		g.open <- nil
		again.waits()
		e.did("preBind a", "preBind a")
		g.open <- nil
		again.ends("")
	})
}

func TestAWaitingCallerMayGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		first, waiting := e.call(request("db-0")), e.call(elsewhere("db-0"))
		waiting.hangUp()
		waiting.ends(hungUp)
		first.waits()
		g.open <- nil
		first.ends("")
		e.did("preBind a", "bind b")
	})
}

func TestACallerThatHasGoneBeforeStartsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if err := e.b.Bind(ctx, request("db-0")); fault.CodeOf(err) != fault.CallerGone {
				t.Fatalf("error %q", text(err))
			}
		}
		e.did()
	})
}

func TestManyCallsForOnePodRunOneCycleAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const callers = 50
		e := start(t, plugins{binder.PreBind: {"a"}, binder.Bind: {"b"}})
		running, cycles := 0, 0
		begin := make(chan struct{})
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error {
			<-begin
			running++
			if running != 1 { // the race detector watches too
				t.Errorf("%d cycles at a time", running)
			}
			cycles++
			return nil
		}
		e.spies["b"].do["bind"] = func(context.Context, *binder.Call) error { running--; return errors.New("again") }
		nodes := []string{node7}
		for i := range 4 {
			nodes = append(nodes, fmt.Sprintf("n-%d", i))
			e.Put(testkit.Node(nodes[i+1]))
		}
		var calls []*caller
		for i := range callers {
			req := request("db-0")
			req.Node = nodes[i%len(nodes)]
			calls = append(calls, e.call(req))
		}
		close(begin)
		for _, call := range calls {
			<-call.done
			if diff := cmp.Diff(`Internal: running Bind plugin "b": again`, text(call.err)); diff != "" {
				t.Error(diff)
			}
		}
		if cycles < len(nodes) || cycles > callers {
			t.Errorf("%d cycles", cycles)
		}
	})
}
