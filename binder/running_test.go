package binder_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prebind/prebind/binder"
)

// One line for each pod, however many callers wait for its result.
func TestCallsAreListedWhileTheyRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, g := gated(t, true)
		wants := func(want ...binder.Running) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, e.b.Running(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("running calls (-want +got):\n%s", diff)
			}
		}
		wants()
		began := time.Now()
		calls := []*caller{e.call(request("db-1")), e.call(request("db-1"))}
		<-time.After(time.Second)
		calls = append(calls, e.call(request("db-0")))
		wants(binder.Running{Request: request("db-1"), Began: began, Stage: binder.PreBind},
			binder.Running{Request: request("db-0"), Began: began.Add(time.Second), Stage: binder.PreBind})
		g.open <- nil
		g.open <- nil
		for _, call := range calls {
			call.ends("")
		}
		wants()
	})
}
