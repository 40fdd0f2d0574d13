package volumes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/prebind/prebind/internal/testkit"
)

// Events are for people. When thousands of calls end together, because the API
// server is slow, looking for theirs must not make it slower.
func TestEventsAreLookedUpByAFewCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &Prebinder{client: client, lookups: make(chan struct{}, eventLookups)}
		claim := testkit.Claim("data-0").PersistentVolumeClaim
		for range eventLookups {
			p.lookups <- struct{}{} // others are at it
		}
		ctx, cancel := context.WithTimeout(t.Context(), eventTimeout)
		defer cancel()
		if text := p.lastEvent(ctx, claim, false); text != "" || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("lastEvent() = %q, and its time is over: %v; want none, after %s", text, ctx.Err(), eventTimeout)
		}
		if asked := client.Actions(); len(asked) > 0 {
			t.Errorf("asked while it was not its turn: %v", asked)
		}

		time.AfterFunc(time.Second, func() { <-p.lookups })
		again, stop := context.WithTimeout(t.Context(), eventTimeout)
		defer stop()
		p.lastEvent(again, claim, false)
		if asked := client.Actions(); len(asked) != 1 {
			t.Errorf("asked %d times in its turn, want once", len(asked))
		}
		if n := len(p.lookups); n != eventLookups-1 {
			t.Errorf("%d turns are taken, want %d: its own was not given back", n, eventLookups-1)
		}
	})
}
