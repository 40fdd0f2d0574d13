package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prebind/prebind/server"
)

func TestDebug(t *testing.T) {
	off := start(t, server.Config{Binder: bindFunc(strictBinder)})
	on := start(t, server.Config{Binder: bindFunc(strictBinder), Debug: func() any { return map[string]int{"waits": 1} }})
	broken := start(t, server.Config{Binder: bindFunc(strictBinder), Debug: func() any { panic("boo") }})
	tests := map[string]struct {
		method, url string
		code        int
		body        string
	}{
		"off":           {"GET", off.opsURL + "/debug/prebind", 404, `{"Error":"GET /debug/prebind is off; set server.debug: true in prebind's configuration and restart it"}`},
		"on":            {"GET", on.opsURL + "/debug/prebind", 200, `{"waits":1}`},
		"a panic":       {"GET", broken.opsURL + "/debug/prebind", 500, `{"Error":"prebind has a fault; its log tells more"}`},
		"another verb":  {"POST", on.opsURL + "/debug/prebind", 405, `{"Error":"method not allowed; here is GET /livez, /readyz, /metrics, /debug/prebind"}`},
		"on the verbs":  {"GET", on.url + "/debug/prebind", 404, `{"Error":"no such path; here is POST /v1/bind, /v1/filter, /v1/prioritize"}`},
		"no other path": {"GET", on.opsURL + "/debug", 404, `{"Error":"no such path; here is GET /livez, /readyz, /metrics, /debug/prebind"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp := on.do(t, tc.method, tc.url, "", nil)
			if resp.code != tc.code || strings.TrimSpace(resp.body) != tc.body || resp.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s, %s", resp.code, resp.header.Get("Content-Type"), resp.body)
			}
		})
	}
	if cache := on.do(t, http.MethodGet, on.opsURL+"/debug/prebind", "", nil).header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("Cache-Control is %q", cache)
	}
}
