package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func TestBadInputIsAnsweredAndChangesNothing(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	good, err := json.Marshal(bindArgs(pod, node))
	f.must(err)

	tests := map[string]struct {
		method, path, body string
		status             int
		words              []string // in Error, for status 200
	}{
		"wrong method":       {"GET", "/bind", "", 405, nil},
		"wrong path":         {"POST", "/unbind", string(good), 404, nil},
		"empty body":         {"POST", "/bind", "", 200, []string{"InvalidRequest"}},
		"malformed":          {"POST", "/bind", "{", 200, []string{"InvalidRequest"}},
		"null":               {"POST", "/bind", "null", 200, []string{"InvalidRequest"}},
		"wrong types":        {"POST", "/bind", `{"PodName": 1}`, 200, []string{"InvalidRequest"}},
		"two values":         {"POST", "/bind", string(good) + string(good), 200, []string{"InvalidRequest"}},
		"nothing given":      {"POST", "/bind", "{}", 200, []string{"InvalidRequest", "PodName", "PodNamespace", "PodUID", "Node"}},
		"no UID":             {"POST", "/bind", strings.Replace(string(good), string(pod.UID), "", 1), 200, []string{"InvalidRequest", "PodUID"}},
		"invalid names":      {"POST", "/bind", `{"PodName":"../x","PodNamespace":"A","PodUID":"1","Node":"a b"}`, 200, []string{"InvalidRequest", "PodName", "PodNamespace", "Node"}},
		"oversized":          {"POST", "/bind", `{"PodName":"` + strings.Repeat("x", 1<<20) + `"}`, 200, []string{"InvalidRequest"}},
		"unknown node":       {"POST", "/bind", strings.Replace(string(good), node, "nowhere", 1), 200, []string{"NodeNotFound", "nowhere"}},
		"unknown pod":        {"POST", "/bind", strings.Replace(string(good), `"web"`, `"web2"`, 1), 200, []string{"PodNotFound", "web2"}},
		"a UID of another":   {"POST", "/bind", strings.Replace(string(good), string(pod.UID), "other", 1), 200, []string{"PodReplaced"}},
		"namespace unknown":  {"POST", "/bind", strings.Replace(string(good), `"`+f.ns+`"`, `"elsewhere"`, 1), 200, []string{"PodNotFound"}},
		"deeply nested JSON": {"POST", "/bind", strings.Repeat("[", 20000), 200, []string{"InvalidRequest"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, data, err := send(t.Context(), tc.method, shared.prebind.URL()+"/v1"+tc.path, []byte(tc.body))
			f.must(err)
			if code != tc.status {
				t.Fatalf("status %d (%s), want %d", code, data, tc.status)
			}
			if tc.status != 200 {
				return
			}
			var result extenderv1.ExtenderBindingResult
			if err := json.Unmarshal(data, &result); err != nil || result.Error == "" {
				t.Fatalf("answer %q (%v): success or garbage", data, err)
			}
			for _, word := range tc.words {
				if !strings.Contains(result.Error, word) {
					t.Errorf("Error %q lacks %q", result.Error, word)
				}
			}
		})
	}
	f.untouched("data")
	f.free(pv)
	f.mustBind(pod, node)
}
