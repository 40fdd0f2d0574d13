package binder_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

func TestCallsThatHaveEndedAreRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, plugins{binder.PreBind: {"a"}, binder.Bind: {"b"}}, testkit.Pod("db-1").Uses("data-1"))
		e.spies["a"].do["preBind"] = func(_ context.Context, call *binder.Call) error {
			<-time.After(2 * time.Second)
			if call.Pod.Name == "db-1" {
				return fault.New(fault.NoVolume, "none")
			}
			return nil
		}
		began := time.Now()
		_ = e.bind(request("db-0"))
		_ = e.bind(request("db-1"))
		stages := func(names ...binder.Stage) []binder.StageTime {
			var all []binder.StageTime
			for _, name := range names {
				took := map[binder.Stage]time.Duration{binder.PreBind: 2 * time.Second}
				all = append(all, binder.StageTime{Stage: name, Took: took[name]})
			}
			return all
		}
		failed := []binder.Ended{{
			Request: request("db-1"), Began: began.Add(2 * time.Second), Took: 2 * time.Second, Outcome: "error", Reason: fault.NoVolume,
			Error: `NoVolume: none [running PreBind plugin "a"]`, Claims: []string{"shop/data-1"},
			Stages: stages("admit", binder.Permit, binder.Reserve, binder.PreBind, "unreserve"),
		}}
		bound := []binder.Ended{{
			Request: request("db-0"), Began: began, Took: 2 * time.Second, Outcome: "bound",
			Stages: stages("admit", binder.Permit, binder.Reserve, binder.PreBind, binder.Bind, binder.PostBind),
		}}
		if diff := cmp.Diff(failed, e.b.Failed(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("failed calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(bound, e.b.Bound(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("bound calls (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyTheLastCallsAreRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"))
		for n := range 60 {
			_ = e.bind(binder.Request{ID: fmt.Sprint(n)}) // it is not valid, and remembered all the same
		}
		failed := e.b.Failed()
		if len(failed) != 50 || failed[0].Request.ID != "59" || failed[49].Request.ID != "10" {
			t.Errorf("%d calls are remembered, from %q to %q", len(failed), failed[0].Request.ID, failed[len(failed)-1].Request.ID)
		}
	})
}
