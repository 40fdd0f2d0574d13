package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/server"
)

func TestBindPassesArgumentsOn(t *testing.T) {
	var got binder.Request
	i := start(t, server.Config{Binder: bindFunc(func(_ context.Context, req binder.Request) error {
		got = req
		return nil
	})})
	body := `{"PodName":"db-0","PodNamespace":"shop","PodUID":"u-1","Node":"node-7","Later":{"more":[1]}}`
	resp := i.do(t, http.MethodPost, i.url+"/v1/bind", body, http.Header{"X-Request-Id": {"req-1"}})
	if msg := resp.result(t); msg != "" {
		t.Errorf("Error = %q", msg)
	}
	want := binder.Request{ID: "req-1", Namespace: "shop", Name: "db-0", UID: "u-1", Node: "node-7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if id := resp.header.Get("X-Request-Id"); id != "req-1" {
		t.Errorf("answered X-Request-Id = %q", id)
	}
}

func TestBindErrors(t *testing.T) {
	tests := map[string]struct {
		bind func() error
		want string // all of it, or its beginning when it ends in "..."
	}{
		"code first": {
			bind: func() error {
				return fmt.Errorf("running PreBind plugin: %w", fault.New(fault.NoVolume, "claim shop/data-0: none fits"))
			},
			want: "NoVolume: claim shop/data-0: none fits [running PreBind plugin]",
		},
		"an error without a code": {bind: func() error { return errors.New("odd") }, want: "Internal: odd"},
		"an error without a text": {bind: func() error { return errors.New("") }, want: "Internal: "},
		"a panic":                 {bind: func() error { panic("boom") }, want: "Internal: panic while serving /v1/bind, request ..."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := start(t, server.Config{Binder: bindFunc(func(context.Context, binder.Request) error { return tc.bind() })})
			got := i.bind(t, validBody)
			if begin, cut := strings.CutSuffix(tc.want, "..."); got != tc.want && (!cut || !strings.HasPrefix(got, begin)) {
				t.Errorf("Error = %q, want %q", got, tc.want)
			}
			if panics := i.logs.FilterMessage("panic in a handler").Len(); (name == "a panic") != (panics == 1) {
				t.Errorf("%d panics logged", panics)
			}
		})
	}
}

func TestBindBadInput(t *testing.T) {
	tests := map[string]struct{ body, want string }{
		"empty":             {"", "InvalidRequest: the body is empty, a JSON object is needed"},
		"blank":             {" \n", "InvalidRequest: the body is empty, a JSON object is needed"},
		"null":              {" null ", "InvalidRequest: the body is null, a JSON object is needed"},
		"no JSON":           {"hello", "InvalidRequest: decoding the body: invalid character 'h' looking for beginning of value"},
		"half":              {`{"PodName":`, "InvalidRequest: decoding the body: unexpected end of JSON input"},
		"trailing garbage":  {validBody + "x", "InvalidRequest: decoding the body: invalid character 'x' after top-level value"},
		"two objects":       {validBody + validBody, "InvalidRequest: decoding the body: invalid character '{' after top-level value"},
		"a list":            {"[]", "InvalidRequest: decoding the body: json: cannot unmarshal array into Go value of type v1.ExtenderBindingArgs"},
		"a wrong type":      {`{"PodName":1}`, "InvalidRequest: decoding the body: json: cannot unmarshal number into Go struct field ExtenderBindingArgs.PodName of type string"},
		"too deep":          {strings.Repeat("[", 20000), "InvalidRequest: decoding the body: invalid character '[' exceeded max depth"},
		"oversized":         {`{"PodName":"` + strings.Repeat("x", 64<<10) + `"}`, "InvalidRequest: reading the body: it is larger than 65536 bytes"},
		"oversized by much": {strings.Repeat(" ", 4<<20), "InvalidRequest: reading the body: it is larger than 65536 bytes"},
		"an empty object":   {"{}", "InvalidRequest: an argument is missing"},
	}
	i := start(t, server.Config{Binder: bindFunc(func(ctx context.Context, req binder.Request) error {
		if req.Name != "" {
			t.Errorf("the binder was called with %+v", req)
		}
		return strictBinder(ctx, req)
	})})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := i.logs.FilterMessage("request refused").Len()
			if got := i.bind(t, tc.body); got != tc.want {
				t.Errorf("Error = %q, want %q", got, tc.want)
			}
			logged := i.logs.FilterMessage("request refused").Len() - before
			if binderLogs := tc.body == "{}"; (logged == 1) == binderLogs {
				t.Errorf("%d lines logged", logged)
			}
		})
	}
}

func TestBindCallerGone(t *testing.T) {
	ended := make(chan error, 1)
	running := make(chan struct{})
	// A body time-out that is over long before the caller leaves must not end
	// the call.
	i := start(t, server.Config{BodyTimeout: time.Millisecond * 20, Binder: bindFunc(func(ctx context.Context, _ binder.Request) error {
		select {
		case <-ctx.Done():
			ended <- errors.New("the context ended before the caller left")
		case <-time.After(100 * time.Millisecond):
			close(running)
			<-ctx.Done()
			ended <- nil
		}
		return ctx.Err()
	})})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-running
		hangUp()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url+"/v1/bind", strings.NewReader(validBody))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := i.client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("the call was answered")
	}
	hangUp()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, "the answer is counted as late", func() bool {
		text := i.do(t, http.MethodGet, i.opsURL+"/metrics", "", nil).body
		return strings.Contains(text, `prebind_late_answers_total{path="/v1/bind"} 1`)
	})
}

// TestBindSlowBody: a client that sends half a body and waits is answered and
// cut off.
func TestBindSlowBody(t *testing.T) {
	i := start(t, server.Config{BodyTimeout: 50 * time.Millisecond, Binder: bindFunc(strictBinder)})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /v1/bind HTTP/1.1\r\nHost: prebind\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got, want := (answer{code: resp.StatusCode, header: resp.Header, body: string(text)}).result(t), "InvalidRequest: reading the body: it did not arrive within 50ms"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("reading on gave %v, want the connection closed", err)
	}
}

func TestRequestIDs(t *testing.T) {
	i := start(t, server.Config{Binder: bindFunc(strictBinder)})
	for name, tc := range map[string]struct {
		id   string
		keep bool
	}{
		"sane":     {"a-b/c:1", true},
		"longest":  {strings.Repeat("a", 128), true},
		"none":     {"", false},
		"too long": {strings.Repeat("a", 129), false},
		"blank":    {"a b", false},
		"no ASCII": {"ä", false},
	} {
		t.Run(name, func(t *testing.T) {
			resp := i.do(t, http.MethodPost, i.url+"/v1/bind", validBody, http.Header{"X-Request-Id": {tc.id}})
			got := resp.header.Get("X-Request-Id")
			if got == "" || (got == tc.id) != tc.keep {
				t.Errorf("sent %q, got %q", tc.id, got)
			}
		})
	}
}

// FuzzBindBody: no body makes the handler panic, and a success is answered
// only to a body that names all four arguments.
func FuzzBindBody(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `"x"`, "1", validBody, validBody + validBody, "\xff",
		`{"PodName":null,"PodNamespace":{},"PodUID":[],"Node":1}`,
		`{"podname":"a","podnamespace":"b","poduid":"c","node":"d"}`,
		`{"PodName":"\ud800","PodNamespace":"b","PodUID":"c","Node":"d"}`,
		`{"PodName":"a","PodName":"","PodNamespace":"b","PodUID":"c","Node":"d"}`,
	} {
		f.Add(seed)
	}
	bound := false
	i := start(f, server.Config{MaxBindBytes: 1 << 10, Binder: bindFunc(func(ctx context.Context, req binder.Request) error {
		err := strictBinder(ctx, req)
		bound = err == nil
		return err
	})})
	f.Fuzz(func(t *testing.T, body string) {
		bound = false
		if msg := i.bind(t, body); (msg == "") != bound {
			t.Errorf("Error = %q, bound = %t", msg, bound)
		}
		if i.logs.FilterMessage("panic in a handler").Len() > 0 {
			t.Error("a handler panicked")
		}
		i.logs.TakeAll()
	})
}
