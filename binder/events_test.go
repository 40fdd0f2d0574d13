package binder_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

// Record has the journal as the one who is told of events.
func (j *journal) Record(event events.Event) {
	j.note(fmt.Sprintf("%s %s (%s): %s %s: %s", event.Regarding.Kind, event.Regarding.Name, event.Related.Name, event.Reason, event.Action, event.Note))
}

func TestBoundPodsAreToldOfOnDemand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		claim := testkit.Claim("data-0").Bound("pv-1")
		told := &journal{}
		e := startWith(t, func(_ *env, cfg *binder.Config) { cfg.BoundEvents = told }, plugins{binder.PreBind: {"a"}, binder.Bind: {"b"}},
			testkit.Pod("db-1").Uses("data-0", "unseen"), claim, testkit.Volume("pv-1").OnHost(node7).ClaimedBy(claim))
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error {
			<-time.After(31 * time.Millisecond)
			return nil
		}
		for _, pod := range []string{"db-0", "db-1"} {
			if err := e.bind(request(pod)); err != nil {
				t.Fatal(err)
			}
		}
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { return fault.New(fault.NoVolume, "none") }
		if e.bind(request("db-0")) == nil {
			t.Fatal("the call has succeeded")
		}
		want := []string{
			"Pod db-0 (): Bound Bind: bound to node node-7 in 31ms",
			"Pod db-1 (data-0): Bound Bind: bound to node node-7 in 31ms; claim shop/data-0 has volume pv-1",
			"PersistentVolumeClaim data-0 (db-1): Bound Bind: claim shop/data-0 has volume pv-1, for pod shop/db-1 on node node-7",
		}
		if diff := cmp.Diff(want, told.read()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
