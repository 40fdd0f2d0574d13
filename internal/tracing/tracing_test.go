package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/tracing"
)

// What a caller says: the same trace and span, to be traced or not.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	traced       = "00-" + callersTrace + "-" + callersSpan + "-01"
	untraced     = "00-" + callersTrace + "-" + callersSpan + "-00"
)

// start returns a Tracing and what is logged.
func start(t *testing.T, endpoint string, perMillion int) (*tracing.Tracing, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	tr, err := tracing.New(tracing.Config{Endpoint: endpoint, SamplingRatePerMillion: perMillion, Logger: zap.New(core), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return tr, logs
}

// serve has a call with the header served in one step with one request, and returns
// the traceparent that came with that.
func serve(t *testing.T, tr *tracing.Tracing, traceparent string, status int, end error) string {
	t.Helper()
	told := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("traceparent")
		w.WriteHeader(status)
	}))
	defer api.Close()
	client := &http.Client{Transport: tr.Transport(api.Client().Transport)}
	handler := tr.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		detached := tracing.Carry(context.Background(), r.Context())
		ctx, span := tracing.Start(detached, "reserve")
		defer func() { span.End(end) }()
		span.String("k8s.pod.name", "db-0")
		span.Strings("prebind.claims", []string{"shop/data-0"})
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, api.URL+"/api/v1/namespaces/shop/persistentvolumeclaims/data-0", nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/bind", nil)
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	handler.ServeHTTP(httptest.NewRecorder(), req)
	return <-told
}

// describe says of each span what is in it, with the name of its parent.
func describe(spans []*tracepb.Span) []string {
	names := map[string]string{callersSpan: "the caller", "": "nothing"}
	for _, s := range spans {
		names[hex.EncodeToString(s.GetSpanId())] = s.GetName()
	}
	var all []string
	for _, s := range spans {
		text := fmt.Sprintf("%s (%s) in %s: %v", s.GetName(), strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"),
			names[hex.EncodeToString(s.GetParentSpanId())], attributes(s.GetAttributes()))
		if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			text += " failed: " + s.GetStatus().GetMessage()
		}
		all = append(all, text)
	}
	return all
}

func TestSpansOfACall(t *testing.T) {
	c := newCollector(t)
	tr, logs := start(t, c.URL, 0)
	passedOn := serve(t, tr, traced, http.StatusConflict, fault.New(fault.NoVolume, "no volume is free"))
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.received()
	want := []string{
		"POST /v1/bind (SERVER) in the caller: map[http.request.method:POST url.path:/v1/bind]",
		"reserve (INTERNAL) in POST /v1/bind: map[error.type:NoVolume k8s.pod.name:db-0 prebind.claims:] failed: NoVolume: no volume is free",
		"PATCH persistentvolumeclaims (CLIENT) in reserve: map[http.request.method:PATCH http.response.status_code: url.path:/api/v1/namespaces/shop/persistentvolumeclaims/data-0] failed: 409 Conflict",
	}
	if diff := cmp.Diff(want, describe(spans)); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		if trace := hex.EncodeToString(s.GetTraceId()); trace != callersTrace {
			t.Errorf("span %s is of trace %s", s.GetName(), trace)
		}
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("span %s ends before it begins", s.GetName())
		}
	}
	if want := "00-" + callersTrace + "-" + hex.EncodeToString(spans[2].GetSpanId()) + "-01"; passedOn != want {
		t.Errorf("the API server was told %q, want %q", passedOn, want)
	}
	if c.about["service.name"] != "prebind" || c.about["service.version"] != "v1" {
		t.Errorf("resource %v", c.about)
	}
	if logs.Len() > 0 {
		t.Errorf("logged: %v", logs.All())
	}
}

// Which calls are traced, and what the API server is told of the others.
func TestSampling(t *testing.T) {
	tests := map[string]struct {
		perMillion  int
		traceparent string
		spans       int
		flags       string // of what is passed on
	}{
		"the caller traces":              {0, traced, 3, "01"},
		"the caller does not":            {1_000_000, untraced, 0, "00"},
		"the caller says nothing":        {1_000_000, "", 3, "01"},
		"nobody asks for it":             {0, "", 0, "00"},
		"the caller speaks in tongues":   {0, "00-zz-01", 0, "00"},
		"the caller's is of a new kind":  {0, "01-" + callersTrace + "-" + callersSpan + "-01-more", 3, "01"},
		"a few of a million, but not it": {1, "", 0, "00"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			tr, _ := start(t, c.URL, tc.perMillion)
			passedOn := serve(t, tr, tc.traceparent, http.StatusOK, nil)
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(c.received()); got != tc.spans || !strings.HasSuffix(passedOn, "-"+tc.flags) {
				t.Errorf("%d spans, and the API server was told %q; want %d and flags %s", got, passedOn, tc.spans, tc.flags)
			}
		})
	}
}

// A request that belongs to no call, such as a watch.
func TestRequestsOfNoCall(t *testing.T) {
	c := newCollector(t)
	tr, _ := start(t, c.URL, 1_000_000)
	told := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("traceparent") }))
	defer api.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.Transport(api.Client().Transport).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if header := <-told; len(c.received()) > 0 || header != "" {
		t.Errorf("spans %v, traceparent %q", describe(c.received()), header)
	}
}

// Whatever the collector does, calls go on, and the log says it once.
func TestTroubleWithTheCollector(t *testing.T) {
	tests := map[string]struct {
		status int    // 0: none, it hangs; -1: it is away
		logged string // "": nothing yet
		stops  string // what Shutdown returns
	}{
		"away":     {status: -1, logged: "connection refused"},
		"refuses":  {status: http.StatusServiceUnavailable, logged: "503"},
		"is other": {status: http.StatusNotFound, logged: "404"},
		"hangs":    {stops: "context deadline exceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hang := make(chan struct{})
			c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tc.status == 0 {
					<-hang
					return
				}
				w.WriteHeader(tc.status)
			}))
			defer c.Close()
			defer close(hang)
			if tc.status < 0 {
				c.Close()
			}
			tr, logs := start(t, c.URL, 1_000_000)
			for range 3 {
				if passedOn := serve(t, tr, "", http.StatusOK, nil); passedOn == "" {
					t.Error("the call was not served")
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := tr.Shutdown(ctx)
			if (tc.stops == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.stops)) {
				t.Errorf("Shutdown: %v, want %q", err, tc.stops)
			}
			if tc.logged == "" {
				return
			}
			if lines := logs.All(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), tc.logged) || lines[0].ContextMap()["spans"] != int64(9) {
				t.Errorf("logged %v, want one line about 9 spans with %q", lines, tc.logged)
			}
		})
	}
}

// Off costs nothing.
func TestStartWithoutATrace(t *testing.T) {
	ctx, failure := t.Context(), errors.New("no")
	cost := testing.AllocsPerRun(100, func() {
		inner, span := tracing.Start(ctx, "reserve")
		span.String("k8s.pod.name", "db-0")
		span.Strings("prebind.claims", nil)
		span.Event("waits")
		span.End(failure)
		tracing.Current(inner).Event("joined")
		if inner != ctx || tracing.Carry(ctx, inner) != ctx {
			t.Error("the context is another")
		}
	})
	if cost > 0 {
		t.Errorf("%v allocations", cost)
	}
}
