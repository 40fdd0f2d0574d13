package server_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/server"
)

func TestNewMistakes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address, free := taken.Addr().String(), "127.0.0.1:0"
	tests := map[string]struct {
		cfg  server.Config
		want string
	}{
		"no binder":         {server.Config{Address: free, OpsAddress: free}, "server.Config.Binder is missing"},
		"no nodes":          {server.Config{Address: free, OpsAddress: free, Binder: bindFunc(strictBinder)}, "server.Config.Nodes is missing"},
		"address in use":    {server.Config{Address: address, OpsAddress: free, Binder: bindFunc(strictBinder), Nodes: anyNode{}}, "listening for extender verbs on " + address + " (server.address): "},
		"opsAddress in use": {server.Config{Address: free, OpsAddress: address, Binder: bindFunc(strictBinder), Nodes: anyNode{}}, "listening for health and metrics on " + address + " (server.opsAddress): "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := server.New(tc.cfg)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("New() error = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestWrongMethodAndPath(t *testing.T) {
	i := start(t, server.Config{Binder: bindFunc(func(context.Context, binder.Request) error {
		t.Error("the binder was called")
		return nil
	})})
	const verbs, ops = "here is POST /v1/bind, /v1/filter, /v1/prioritize", "here is GET /livez, /readyz, /metrics, /debug/prebind"
	tests := map[string]struct {
		method, url string
		code        int
		allow, body string
	}{
		"GET bind":               {"GET", i.url + "/v1/bind", 405, "POST", `{"Error":"method not allowed; ` + verbs + `"}`},
		"DELETE bind":            {"DELETE", i.url + "/v1/bind", 405, "POST", `{"Error":"method not allowed; ` + verbs + `"}`},
		"an odd method":          {"BREW", i.url + "/v1/bind", 405, "POST", `{"Error":"method not allowed; ` + verbs + `"}`},
		"root":                   {"POST", i.url + "/", 404, "", `{"Error":"no such path; ` + verbs + `"}`},
		"a slash too many":       {"POST", i.url + "/v1/bind/", 404, "", `{"Error":"no such path; ` + verbs + `"}`},
		"another case":           {"POST", i.url + "/v1/Bind", 404, "", `{"Error":"no such path; ` + verbs + `"}`},
		"health on the verbs":    {"GET", i.url + "/readyz", 404, "", `{"Error":"no such path; ` + verbs + `"}`},
		"bind on ops":            {"POST", i.opsURL + "/v1/bind", 404, "", `{"Error":"no such path; ` + ops + `"}`},
		"POST health":            {"POST", i.opsURL + "/readyz", 405, "GET", `{"Error":"method not allowed; ` + ops + `"}`},
		"a path that is escaped": {"POST", i.url + "/v1%2Fbind", 404, "", `{"Error":"no such path; ` + verbs + `"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp := i.do(t, tc.method, tc.url, validBody, nil)
			if resp.code != tc.code || resp.header.Get("Allow") != tc.allow || strings.TrimSpace(resp.body) != tc.body {
				t.Errorf("got %d, Allow %q, body %s", resp.code, resp.header.Get("Allow"), resp.body)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	var synced atomic.Bool
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Checks: []server.Check{
		{Name: "cache-nodes", Check: func() error { return nil }},
		{Name: "cache-pods", Check: func() error {
			if !synced.Load() {
				return errors.New("not synced yet")
			}
			return nil
		}},
	}})
	want := func(path string, code int, body string) {
		t.Helper()
		resp := i.do(t, http.MethodGet, i.opsURL+path, "", nil)
		if resp.code != code {
			t.Errorf("%s: status %d", path, resp.code)
		}
		if diff := cmp.Diff(body, resp.body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	const notReady = "[+]ping ok\n[+]cache-nodes ok\n[-]cache-pods failed: not synced yet\n[+]shutdown ok\nreadyz check failed\n"
	want("/readyz", 503, notReady)
	want("/readyz?verbose", 503, notReady)
	want("/livez", 200, "ok")
	want("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n")
	if got, want := i.bind(t, validBody), "NotReady: prebind is not ready, the scheduler tries again: cache-pods: not synced yet"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	synced.Store(true)
	want("/readyz", 200, "ok")
	want("/readyz?verbose=1", 200, "[+]ping ok\n[+]cache-nodes ok\n[+]cache-pods ok\n[+]shutdown ok\nreadyz check passed\n")
	if got := i.bind(t, validBody); got != "" {
		t.Errorf("Error = %q", got)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Registry: registry})
	i.bind(t, validBody)
	i.bind(t, "{}")
	i.do(t, http.MethodPost, i.url+"/v1/filter", "null", nil)
	i.do(t, http.MethodGet, i.url+"/v1/bind", "", nil)
	i.do(t, http.MethodGet, i.url+"/a", "", nil)
	i.do(t, http.MethodGet, i.url+"/b", "", nil)
	text := i.do(t, http.MethodGet, i.opsURL+"/metrics", "", nil).body
	for _, line := range []string{
		`prebind_http_requests_total{code="200",path="/v1/bind"} 2`,
		`prebind_http_requests_total{code="404",path="other"} 2`,
		`prebind_http_requests_total{code="405",path="other"} 1`,
		`prebind_http_requests_in_flight 1`,
		`prebind_call_errors_total{path="/v1/bind",reason="NotReady"} 0`,
		`prebind_call_errors_total{path="/v1/bind",reason="InvalidRequest"} 1`,
		`prebind_call_errors_total{path="/v1/filter",reason="InvalidRequest"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics lacks %s:\n%s", line, text)
		}
	}
	// Native histograms come in this format alone.
	protobuf := http.Header{"Accept": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}}
	if got := i.do(t, http.MethodGet, i.opsURL+"/metrics", "", protobuf).header.Get("Content-Type"); !strings.HasPrefix(got, "application/vnd.google.protobuf") {
		t.Errorf("Content-Type = %q, want protobuf", got)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}
