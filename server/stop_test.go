package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/server"
)

// TestStopAnswersRunningCalls: on a stop, the calls that wait are answered
// before the connections close, and health tells of it meanwhile.
func TestStopAnswersRunningCalls(t *testing.T) {
	waiting, drained, hold := make(chan struct{}), make(chan struct{}), make(chan struct{})
	i := start(t, server.Config{
		Binder: bindFunc(func(context.Context, binder.Request) error {
			close(waiting)
			<-drained
			<-hold
			return fault.New(fault.ShuttingDown, "try again")
		}),
		Drain: func(context.Context) error { close(drained); return nil },
	})
	answered := make(chan string, 1)
	go func() { answered <- i.bind(t, validBody) }()
	<-waiting
	i.stop()
	<-drained
	resp := i.do(t, http.MethodGet, i.opsURL+"/readyz", "", nil)
	if resp.code != http.StatusServiceUnavailable || !strings.Contains(resp.body, "[-]shutdown failed: process is shutting down\n") {
		t.Errorf("/readyz while stopping: %d %s", resp.code, resp.body)
	}
	close(hold)
	if got, want := <-answered, "ShuttingDown: try again"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	if err := <-i.stopped; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// TestStopWaitsForWhatHasNoCaller: Drain may outlast the last answer.
func TestStopWaitsForWhatHasNoCaller(t *testing.T) {
	draining, work := make(chan struct{}), make(chan struct{})
	i := start(t, server.Config{
		Binder: bindFunc(strictBinder),
		Drain: func(ctx context.Context) error {
			close(draining)
			select {
			case <-work:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	i.stop()
	<-draining
	if resp := i.do(t, http.MethodGet, i.opsURL+"/livez", "", nil); resp.code != http.StatusOK {
		t.Errorf("/livez while draining: %d", resp.code)
	}
	close(work)
	if err := <-i.stopped; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// TestShutdownDelay: until the delay is over the server is not ready, and
// serves as before, but keeps no connection.
func TestShutdownDelay(t *testing.T) {
	var drained atomic.Bool
	i := start(t, server.Config{
		Binder:        bindFunc(strictBinder),
		Drain:         func(context.Context) error { drained.Store(true); return nil },
		ShutdownDelay: time.Hour,
	})
	before := i.do(t, http.MethodPost, i.url+"/v1/bind", validBody, nil)
	if before.close || before.result(t) != "" {
		t.Errorf("before the stop: close %t, %s", before.close, before.body)
	}
	i.stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for i.do(t, http.MethodGet, i.opsURL+"/readyz", "", nil).code != http.StatusServiceUnavailable {
		<-ticker.C
	}
	during := i.do(t, http.MethodPost, i.url+"/v1/bind", validBody, nil)
	if !during.close {
		t.Error("the connection was kept during the delay")
	}
	if got := during.result(t); got != "" {
		t.Errorf("Error = %q during the delay", got)
	}
	if drained.Load() {
		t.Error("drained before the delay was over")
	}
	i.srv.Break() // also ends the delay
	if err := <-i.stopped; err == nil || !strings.Contains(err.Error(), "serving extender verbs: ") || !drained.Load() {
		t.Errorf("Run() = %v, drained %t, want the failure and a drain", err, drained.Load())
	}
}

// TestCallDuringTheDrain: a new call gets a retryable error at once, where
// net/http, once it shuts down, would read it and hang up.
func TestCallDuringTheDrain(t *testing.T) {
	draining, work := make(chan struct{}), make(chan struct{})
	i := start(t, server.Config{
		Binder: bindFunc(func(context.Context, binder.Request) error {
			t.Error("the binder was called")
			return nil
		}),
		Drain: func(context.Context) error { close(draining); <-work; return nil },
	})
	i.stop()
	<-draining
	late := i.do(t, http.MethodPost, i.url+"/v1/bind", validBody, nil)
	close(work)
	if got, want := late.result(t), "ShuttingDown: this replica of prebind is shutting down; the scheduler tries again"; got != want || !late.close {
		t.Errorf("Error = %q, connection to be closed %t, want %q and true", got, late.close, want)
	}
	if err := <-i.stopped; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// TestStopCutsOff: a call that does not end is cut off at the deadline, which
// ends its context.
func TestStopCutsOff(t *testing.T) {
	waiting := make(chan struct{})
	i := start(t, server.Config{
		DrainTimeout: 50 * time.Millisecond,
		Binder: bindFunc(func(ctx context.Context, _ binder.Request) error {
			close(waiting)
			<-ctx.Done()
			return ctx.Err()
		}),
	})
	failed := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+"/v1/bind", strings.NewReader(validBody))
		if err == nil {
			var resp *http.Response
			if resp, err = i.client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}
		failed <- err
	}()
	<-waiting
	i.stop()
	if err := <-i.stopped; err == nil || !strings.Contains(err.Error(), "stopping extender verbs, requests were cut off") {
		t.Errorf("Run() = %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
}
