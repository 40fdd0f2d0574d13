package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/server"
)

// TestSlowBodyOverHTTP2: the deadline of the body, and a caller who goes, are as
// over HTTP/1.1.
func TestSlowBodyOverHTTP2(t *testing.T) {
	ca := newCA(t, "serving-ca")
	gone := make(chan struct{})
	waiting := make(chan struct{})
	i := start(t, server.Config{
		BodyTimeout: 50 * time.Millisecond,
		TLS:         newFiles(t, ca.issue(t, "prebind", nil), ca.pem).config(false),
		Binder: bindFunc(func(ctx context.Context, _ binder.Request) error {
			close(waiting)
			<-ctx.Done()
			close(gone)
			return ctx.Err()
		}),
	})
	c := client(t, ca, nil, nil)
	body, write := io.Pipe()
	defer func() { _ = write.Close() }()
	go func() { _, _ = write.Write([]byte(`{"PodName":`)) }() // and nothing more
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+"/v1/bind", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if want := "InvalidRequest: reading the body: it did not arrive within 50ms"; resp.ProtoMajor != 2 || !strings.Contains(string(text), want) {
		t.Errorf("%s %s, want %q", resp.Proto, text, want)
	}

	ctx, hangUp := context.WithCancel(t.Context())
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, i.url+"/v1/bind", strings.NewReader(validBody))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-waiting
	// Well past BodyTimeout the call still waits: the deadline was lifted.
	select {
	case <-gone:
		t.Error("the deadline of the body ended the call")
	case <-time.After(200 * time.Millisecond):
	}
	hangUp()
	<-gone
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
}

// TestStopOverHTTP2: on a stop each call that runs is answered, on one
// connection that many share, and calls during the delay are served on new
// connections because the old one got GOAWAY.
func TestStopOverHTTP2(t *testing.T) {
	const calls = 300
	var running sync.WaitGroup
	running.Add(calls)
	drained := make(chan struct{})
	ca := newCA(t, "serving-ca")
	registry := prometheus.NewRegistry()
	i := start(t, server.Config{
		Registry: registry,
		TLS:      newFiles(t, ca.issue(t, "prebind", nil), ca.pem).config(false),
		Binder: bindFunc(func(_ context.Context, req binder.Request) error {
			if req.Name == "db-0" {
				running.Done()
				<-drained
			}
			return nil
		}),
		Drain:         func(context.Context) error { close(drained); return nil },
		ShutdownDelay: 5 * time.Second, // in which a loaded machine manages three calls
	})
	s := &secure{instance: i}
	c := client(t, ca, nil, nil)
	results := make(chan error, calls)
	for range calls {
		go func() {
			result, _, err := s.post(t, c, validBody)
			if err == nil && result != "" {
				err = errors.New(result)
			}
			results <- err
		}()
	}
	running.Wait()
	i.stop()
	eventually(t, "unready", func() bool {
		return i.do(t, http.MethodGet, i.opsURL+"/readyz", "", nil).code == http.StatusServiceUnavailable
	})
	for range 3 {
		if result, proto, err := s.post(t, c, strings.Replace(validBody, "db-0", "db-1", 1)); err != nil || result != "" || proto != "HTTP/2.0" {
			t.Errorf("during the delay: error %v, result %q over %s", err, result, proto)
		}
	}
	for range calls {
		if err := <-results; err != nil {
			t.Errorf("a running call: %v", err)
		}
	}
	if err := <-i.stopped; err != nil {
		t.Errorf("Run() = %v", err)
	}
}
