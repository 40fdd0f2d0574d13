package faultproxy

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// Action is what happens to a request. The functions of this file make one.
type Action struct {
	name string
	do   func(d *Disturbance, e *exchange)
}

// Answer refuses the request with the status in place of the API server, which
// does not get it. 409 is a Conflict, as of a resourceVersion that is old.
func Answer(status int) Action {
	return Action{name: "answer " + strconv.Itoa(status), do: func(_ *Disturbance, e *exchange) {
		e.refuse(status, 0)
	}}
}

// AnswerRetryAfter is Answer with a Retry-After header, in whole seconds.
func AnswerRetryAfter(status int, after time.Duration) Action {
	return Action{name: "answer " + strconv.Itoa(status) + " retry-after", do: func(_ *Disturbance, e *exchange) {
		e.refuse(status, after)
	}}
}

// Cut closes the connection; the API server does not get the request.
func Cut() Action {
	return Action{name: "cut", do: func(_ *Disturbance, _ *exchange) { panic(http.ErrAbortHandler) }}
}

// Lose lets the API server do the request and closes the connection in place
// of the answer.
func Lose() Action {
	return Action{name: "lose the answer", do: func(_ *Disturbance, e *exchange) {
		e.forward(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	}}
}

// LoseAs lets the API server do the request and answers the status, such as
// 504, in place of what it said.
func LoseAs(status int) Action {
	return Action{name: "lose the answer as " + strconv.Itoa(status), do: func(_ *Disturbance, e *exchange) {
		e.forward(httptest.NewRecorder())
		e.refuse(status, 0)
	}}
}

// Delay passes the request on after the time.
func Delay(by time.Duration) Action {
	return Action{name: "delay " + by.String(), do: func(_ *Disturbance, e *exchange) {
		select {
		case <-time.After(by):
			e.forward(e.w)
		case <-e.r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}}
}

// Hold keeps the request until Disturbance.Release, then passes it on. A
// request whose client gives up before never gets to the API server.
func Hold() Action {
	return Action{name: "hold", do: func(d *Disturbance, e *exchange) {
		select {
		case <-d.gate:
			e.forward(e.w)
		case <-e.r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}}
}

// HoldAnswer lets the API server do the request and keeps its answer until
// Disturbance.Release.
func HoldAnswer() Action {
	return Action{name: "hold the answer", do: func(d *Disturbance, e *exchange) {
		answer := httptest.NewRecorder()
		e.forward(answer)
		select {
		case <-d.gate:
			e.replay(answer)
		case <-e.r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}}
}

// Before calls hook and then passes the request on: for what others write
// between a client's decision and its write. The body of a write is in the
// Request.
func Before(hook func(Request)) Action {
	return Action{name: "something comes before", do: func(_ *Disturbance, e *exchange) {
		hook(e.record.snapshot())
		e.forward(e.w)
	}}
}

// After passes the request on, and calls hook when the API server has done it
// and the client has no answer yet.
func After(hook func(Request)) Action {
	return Action{name: "something comes after", do: func(_ *Disturbance, e *exchange) {
		answer := httptest.NewRecorder()
		e.forward(answer)
		hook(e.record.snapshot())
		e.replay(answer)
	}}
}
