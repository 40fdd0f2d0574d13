package binder_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
)

func TestCycleRunsStagesAndPluginsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("b", "a"))
		wantText(t, e.bind(request("db-0")), "")
		e.did("permit b", "permit a", "reserve b", "reserve a", "preBind b", "preBind a", "bind b", "postBind b", "postBind a")
	})
}

func TestCycleAfterAFailure(t *testing.T) {
	quota := fault.New(fault.NoCapacity, "quota exceeded")
	tests := map[string]struct {
		stage, plugin string
		did           []string
		wantErr       string
	}{
		"permit": {
			"permit", "b",
			[]string{"permit a", "permit b"},
			`running Permit plugin "b": asking: NoCapacity: quota exceeded`,
		},
		"the first reserve": {
			"reserve", "a",
			[]string{"permit a", "permit b", "reserve a", "unreserve a"},
			`running Reserve plugin "a": asking: NoCapacity: quota exceeded`,
		},
		"a later reserve: the one that failed is unreserved first": {
			"reserve", "b",
			[]string{"permit a", "permit b", "reserve a", "reserve b", "unreserve b", "unreserve a"},
			`running Reserve plugin "b": asking: NoCapacity: quota exceeded`,
		},
		"preBind": {
			"preBind", "a",
			[]string{"permit a", "permit b", "reserve a", "reserve b", "preBind a", "unreserve b", "unreserve a"},
			`running PreBind plugin "a": asking: NoCapacity: quota exceeded`,
		},
		"bind": {
			"bind", "a",
			[]string{"permit a", "permit b", "reserve a", "reserve b", "preBind a", "preBind b", "bind a", "unreserve b", "unreserve a"},
			`running Bind plugin "a": asking: NoCapacity: quota exceeded`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, everywhere("a", "b"))
				e.spies[tc.plugin].do[tc.stage] = func(context.Context, *binder.Call) error { return fmt.Errorf("asking: %w", quota) }
				err := e.bind(request("db-0"))
				e.did(tc.did...)
				if diff := cmp.Diff(tc.wantErr, fmt.Sprint(err)); diff != "" || !errors.Is(err, quota) {
					t.Errorf("error (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCycleHandsDataFromStageToStage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a", "b"))
		e.spies["a"].do["reserve"] = func(_ context.Context, call *binder.Call) error {
			call.Put("a", "kept")
			return nil
		}
		e.spies["b"].do["reserve"] = func(_ context.Context, call *binder.Call) error {
			if got := call.Get("b"); got != nil {
				t.Errorf("b finds %v", got)
			}
			return nil
		}
		e.spies["a"].do["postBind"] = func(_ context.Context, call *binder.Call) error {
			if got := call.Get("a"); got != "kept" || call.Pod.Name != "db-0" || call.Node != node7 {
				t.Errorf("a finds %v, pod %s, node %s", got, call.Pod.Name, call.Node)
			}
			return nil
		}
		wantText(t, e.bind(request("db-0")), "")
	})
}

func TestCycleAsksBindPluginsUntilOneDoesNotSkip(t *testing.T) {
	skip := func(context.Context, *binder.Call) error { return binder.ErrSkip }
	skipBecause := func(context.Context, *binder.Call) error { return fmt.Errorf("not mine: %w", binder.ErrSkip) }
	bind := plugins{binder.Bind: {"a", "b", "c"}}
	t.Run("the first that binds is the last that is asked", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, bind)
			e.spies["a"].do["bind"] = skip
			wantText(t, e.bind(request("db-0")), "")
			e.did("bind a", "bind b")
		})
	})
	t.Run("an error ends it", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, bind)
			e.spies["a"].do["bind"] = skipBecause
			e.spies["b"].do["bind"] = func(context.Context, *binder.Call) error { return fault.New(fault.Conflict, "no") }
			wantText(t, e.bind(request("db-0")), `Conflict: no [running Bind plugin "b"]`)
			e.did("bind a", "bind b")
		})
	})
	t.Run("nobody binds", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, bind)
			e.spies["a"].do["bind"], e.spies["b"].do["bind"], e.spies["c"].do["bind"] = skip, skipBecause, skip
			wantText(t, e.bind(request("db-0")), "Internal: pod shop/db-0: every bind plugin skipped it")
			e.did("bind a", "bind b", "bind c")
		})
	})
}

func TestCycleEndsWithTheBindTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		e.spies["a"].do["preBind"] = func(ctx context.Context, _ *binder.Call) error {
			<-ctx.Done()
			return fmt.Errorf("waiting: %w", ctx.Err())
		}
		e.spies["a"].do["unreserve"] = func(ctx context.Context, _ *binder.Call) error {
			if ctx.Err() != nil {
				t.Error("unreserve has a context that has ended")
			}
			return nil
		}
		call := e.call(request("db-0"))
		<-call.done
		if code := fault.CodeOf(call.err); code != fault.BindTimeout || call.took != bindTimeout {
			t.Errorf("error %q after %s", text(call.err), call.took)
		}
		e.did("permit a", "reserve a", "preBind a", "unreserve a")
	})
}

// net/http gives the cause of a context's end as the error of its request.
func TestCycleTellsATimeoutFromAnErrorOfTheAPIServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		e.spies["a"].do["preBind"] = func(ctx context.Context, _ *binder.Call) error {
			<-ctx.Done()
			return fault.FromAPI(&url.Error{Op: "Get", URL: "/pods/db-0", Err: context.Cause(ctx)}, "get", "pods", "shop/db-0")
		}
		call := e.call(request("db-0"))
		<-call.done
		if want := "BindTimeout: volumes.bindTimeout (10m0s) is over (APIError: get pods shop/db-0: "; !strings.HasPrefix(text(call.err), want) {
			t.Errorf("error %q, want %q...", text(call.err), want)
		}
	})
}

// A plugin that takes no notice of the time does not make the next one start.
func TestCycleStartsNoPluginAfterTheEnd(t *testing.T) {
	for _, stage := range []string{"permit", "reserve", "preBind"} {
		t.Run(stage, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, everywhere("a", "b"))
				e.spies["a"].do[stage] = func(ctx context.Context, _ *binder.Call) error { <-ctx.Done(); return nil }
				call := e.call(request("db-0"))
				before := e.journal.read()
				<-call.done
				call.ends("BindTimeout: volumes.bindTimeout (10m0s) is over")
				for _, line := range e.journal.read()[len(before):] {
					if line != "unreserve a" && line != "unreserve b" {
						t.Errorf("%q ran after the end", line)
					}
				}
			})
		})
	}
}

// What is done after the pod was bound can not undo it.
func TestCycleRunsPostBindWhateverHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		e.spies["a"].do["bind"] = func(ctx context.Context, _ *binder.Call) error { <-ctx.Done(); return nil }
		call := e.call(request("db-0"))
		<-call.done
		call.ends("")
		e.did("permit a", "reserve a", "preBind a", "bind a", "postBind a")
	})
}

func TestCycleTurnsAPanicIntoAnError(t *testing.T) {
	for _, stage := range []string{"permit", "reserve", "preBind", "bind", "unreserve"} {
		t.Run(stage, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, everywhere("a"))
				e.spies["a"].do[stage] = func(context.Context, *binder.Call) error { panic("a bug") }
				if stage == "unreserve" {
					e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { return errors.New("no") }
				}
				if err := e.bind(request("db-0")); fault.CodeOf(err) != fault.Internal {
					t.Errorf("error %q, want code Internal", text(err))
				}
				if n := e.logs.FilterMessage("panic in a bind call").Len(); n != 1 {
					t.Errorf("%d log lines about the panic, want 1", n)
				}
				clear(e.spies["a"].do)
				wantText(t, e.bind(request("db-0")), "") // the process lives, the pod is not stuck
			})
		})
	}
}

func TestAPanicAfterReserveGivesBackWhatWasReserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { panic("a bug") }
		wantText(t, e.bind(request("db-0")), `Internal: panic: a bug [running PreBind plugin "a"]`)
		e.did("permit a", "reserve a", "preBind a", "unreserve a")
	})
}

func TestAPanicAfterTheBindIsNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		e.spies["a"].do["postBind"] = func(context.Context, *binder.Call) error { panic("a bug") }
		wantText(t, e.bind(request("db-0")), "")
	})
}
