package binder_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// outcomes lists the outcomes of all calls, in the order in which they ended.
func (e *env) outcomes() []any {
	var outcomes []any
	for _, line := range e.logs.FilterMessage("bind").All() {
		outcomes = append(outcomes, line.ContextMap()["outcome"])
	}
	return outcomes
}

// line is one log line; fields without those that are checked apart.
type line struct {
	Level  zapcore.Level
	Fields map[string]any
}

func fields(outcome string, more map[string]any) map[string]any {
	all := map[string]any{
		"outcome": outcome, "pod": "shop/db-0", "uid": "uid-db-0", "node": node7, "requestID": "r-1",
		"claims": []any{}, "durationMs": 1000.0,
		"stagesMs": map[string]any{"admit": 0.0, "permit": 0.0, "reserve": 1000.0, "preBind": 0.0, "bind": 0.0, "postBind": 0.0},
	}
	maps.Copy(all, more)
	return all
}

func TestEachCallLeavesOneLogLine(t *testing.T) {
	tests := map[string]struct {
		do    func(ctx context.Context, call *binder.Call) error // in reserve, which takes a second
		req   binder.Request
		given func(e *env)
		want  line
	}{
		"bound": {
			do:    func(context.Context, *binder.Call) error { return nil },
			req:   request("db-0"),
			given: func(e *env) { e.Put(testkit.Pod("db-0").Uses("data-0")) },
			want:  line{zap.InfoLevel, fields("bound", map[string]any{"claims": []any{"shop/data-0"}})},
		},
		"an error": {
			do:  func(context.Context, *binder.Call) error { return fault.New(fault.NoVolume, "none fits") },
			req: request("db-0"),
			want: line{zap.WarnLevel, fields("error", map[string]any{
				"reason": "NoVolume", "error": `running Reserve plugin "a": NoVolume: none fits`,
				"stagesMs": map[string]any{"admit": 0.0, "permit": 0.0, "reserve": 1000.0, "unreserve": 0.0},
			})},
		},
		"an error without a code": {
			do:  func(context.Context, *binder.Call) error { return fmt.Errorf("odd") },
			req: request("db-0"),
			want: line{zap.WarnLevel, fields("error", map[string]any{
				"reason": "Internal", "error": `running Reserve plugin "a": odd`,
				"stagesMs": map[string]any{"admit": 0.0, "permit": 0.0, "reserve": 1000.0, "unreserve": 0.0},
			})},
		},
		"bound before": {
			req:   request("db-0"),
			given: func(e *env) { e.Put(testkit.Pod("db-0").OnNode(node7)) },
			want:  line{zap.InfoLevel, fields("alreadyBound", map[string]any{"durationMs": 0.0, "stagesMs": map[string]any{"admit": 0.0}})},
		},
		"refused": {
			req:   request("db-0"),
			given: func(e *env) { e.Put(testkit.Pod("db-0").OnNode("node-8")) },
			want: line{zap.WarnLevel, fields("error", map[string]any{
				"durationMs": 0.0, "stagesMs": map[string]any{"admit": 0.0}, "reason": "PodAssigned",
				"error": "PodAssigned: pod shop/db-0: it is on node node-8 already, so it can not be bound to node node-7",
			})},
		},
		"not valid": {
			req: binder.Request{ID: "r-1", Namespace: "shop", Name: "db-0", UID: "uid-db-0"},
			want: line{zap.WarnLevel, fields("error", map[string]any{
				"durationMs": 0.0, "stagesMs": map[string]any{}, "reason": "InvalidRequest", "error": "InvalidRequest: Node is missing", "node": "",
			})},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, everywhere("a"))
				if tc.given != nil {
					tc.given(e)
					synctest.Wait()
				}
				e.spies["a"].do["reserve"] = func(ctx context.Context, call *binder.Call) error {
					<-time.After(time.Second)
					return tc.do(ctx, call)
				}
				_ = e.bind(tc.req)
				if diff := cmp.Diff([]line{tc.want}, e.lines()); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func (e *env) lines() []line {
	var lines []line
	for _, entry := range e.logs.All() {
		lines = append(lines, line{entry.Level, entry.ContextMap()})
	}
	return lines
}

func TestACallThatJoinedLeavesALineOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		second := request("db-0")
		second.ID = "r-2"
		calls := []*caller{e.call(request("db-0")), e.call(second)}
		g.open <- nil
		for _, call := range calls {
			call.ends("")
		}
		got := map[string]any{}
		for _, line := range e.lines() {
			got[fmt.Sprint(line.Fields["requestID"])] = line.Fields["joined"]
		}
		if diff := cmp.Diff(map[string]any{"r-1": nil, "r-2": true}, got); diff != "" || len(e.lines()) != 2 {
			t.Errorf("joined, by request (-want +got):\n%s", diff)
		}
	})
}

// What a caller that hung up left behind is logged once the cycle has ended.
func TestACallWhoseCallerHasGoneLeavesOneLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, _ := gated(t, true)
		call := e.call(request("db-0"))
		call.hangUp()
		call.ends(hungUp)
		lines := e.lines()
		if len(lines) != 1 || lines[0].Fields["reason"] != "CallerGone" || lines[0].Fields["outcome"] != "error" {
			t.Errorf("log: %v", lines)
		}
	})
}
