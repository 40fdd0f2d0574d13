package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// held is a transport whose requests arrive at sent and end with release.
type held struct{ sent, release chan struct{} }

func (h held) RoundTrip(*http.Request) (*http.Response, error) {
	h.sent <- struct{}{}
	<-h.release
	return &http.Response{StatusCode: http.StatusOK}, nil
}

func TestTurns(t *testing.T) {
	const atOnce = 2
	tests := map[string]struct {
		method string
		length time.Duration
		queues bool
	}{
		"a write within its turn keeps the next one back":       {http.MethodPatch, time.Hour, true},
		"a write beyond its turn does not":                      {http.MethodPatch, time.Millisecond, false},
		"reads, and so the watches, do not wait for each other": {http.MethodGet, time.Hour, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := held{make(chan struct{}, atOnce+1), make(chan struct{})}
			transport := newTurns(api, atOnce, tc.length)
			ended := make(chan error, atOnce+2)
			send := func(ctx context.Context) {
				request, err := http.NewRequestWithContext(ctx, tc.method, "http://api/", http.NoBody)
				if err == nil {
					_, err = transport.RoundTrip(request) //nolint:bodyclose // it has none
				}
				ended <- err
			}
			for range atOnce {
				go send(t.Context())
				<-api.sent
			}
			if tc.queues {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if send(ctx); !errors.Is(<-ended, context.Canceled) {
					t.Error("a write that gave up was sent")
				}
			}
			go send(t.Context())
			if tc.queues {
				if len(api.sent) > 0 {
					t.Error("one write too many was sent")
				}
				api.release <- struct{}{}
			}
			<-api.sent
			close(api.release)
			for range atOnce + 1 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if left := len(transport.taken); left > 0 {
				t.Errorf("%d turns are still taken", left)
			}
		})
	}
}
