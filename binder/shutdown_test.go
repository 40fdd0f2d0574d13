package binder_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/testkit"
)

func TestShutdownEndsAllCalls(t *testing.T) {
	const shuttingDown = "ShuttingDown: this replica of prebind is shutting down; the scheduler tries again"
	bubble(t, func(t *testing.T) {
		e := start(t, everywhere("a"), testkit.Node("node-8"))
		e.spies["a"].do["preBind"] = func(ctx context.Context, _ *binder.Call) error { <-ctx.Done(); return context.Cause(ctx) }
		running := e.call(request("db-0"))
		waiting := e.call(elsewhere("db-0"))
		time.AfterFunc(time.Minute, e.b.Shutdown)
		<-running.done
		running.ends(shuttingDown + ` [running PreBind plugin "a"]`)
		if running.took != time.Minute {
			t.Errorf("the call ended after %s", running.took)
		}
		waiting.ends(shuttingDown)
		wantText(t, e.bind(request("db-0")), shuttingDown)
	})
}

// TestWaitOutlastsCallers: a Binding that was sent is waited for even when
// nobody waits for its answer any more.
func TestWaitOutlastsCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		sent, open := make(chan struct{}), make(chan struct{})
		e.Before("create", binding, 1, func(testkit.Request) error { close(sent); <-open; return nil })
		call := e.call(request("db-0"))
		<-sent
		call.hangUp()
		call.ends(hungUp)
		e.b.Shutdown()

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.b.Wait(short); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "waiting for 1 bind calls to end: context deadline exceeded" {
			t.Errorf("Wait() with the Binding under way = %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- e.b.Wait(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("Wait() = %v before the Binding's answer", err)
		default:
		}
		close(open)
		if err := <-ended; err != nil {
			t.Errorf("Wait() = %v", err)
		}
		e.boundTo(node7)
	})
}
