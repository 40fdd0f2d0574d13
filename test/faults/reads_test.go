package faults_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/prebind/prebind/test/faultproxy"
)

// read is one of the live reads that a call needs.
type read struct {
	scene func(*testing.T, *stand) *scene
	match func(*scene) faultproxy.Match
	words func(*scene) string // how the error names verb, resource and object
}

func theReads() map[string]read {
	get := func(resource string, name func(*scene) string, namespaced bool) func(*scene) faultproxy.Match {
		return func(s *scene) faultproxy.Match {
			m := faultproxy.Match{Verb: "get", Resource: resource, Name: name(s)}
			if namespaced {
				m.Namespace = s.ns
			}
			return m
		}
	}
	data := func(*scene) string { return "data" }
	return map[string]read{
		// A claim that the cache shows bound is read once (ADR 5).
		"bound claim": {boundScene, get("persistentvolumeclaims", data, true), func(s *scene) string {
			return "get persistentvolumeclaims " + s.ns + "/data"
		}},
		// What the cache lacks is read before it is called missing.
		"unknown claim": {unknownClaimScene, get("persistentvolumeclaims", data, true), func(s *scene) string {
			return "get persistentvolumeclaims " + s.ns + "/data"
		}},
		"unknown node": {unknownNodeScene, get("nodes", func(s *scene) string { return s.node }, false), func(s *scene) string {
			return "get nodes " + s.node
		}},
		// A pod that is on a node is in no cache.
		"assigned pod": {assignedScene, get("pods", func(s *scene) string { return s.web.Name }, true), func(s *scene) string {
			return "get pods " + s.ns + "/web"
		}},
	}
}

func unknownClaimScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := emptyScene(t, on)
	s.web = s.pod("web", "data")
	return s
}

func unknownNodeScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := plainScene(t, on)
	s.node = s.name("unknown")
	return s
}

func assignedScene(t *testing.T, on *stand) *scene {
	t.Helper()
	s := plainScene(t, on)
	s.mustBind(s.web, s.node)
	// Until the watch has shown the pod's end of waiting, a call for it would go
	// as far as the Binding.
	s.eventually("pod web has left prebind's cache", func() bool {
		before := len(s.requests(s.binding()))
		s.mustBind(s.web, s.node)
		return len(s.requests(s.binding())) == before
	})
	return s
}

// readWorks checks that the scene has its right answer once the read works.
func (s *scene) readWorks(name string) {
	s.t.Helper()
	text := s.bind(s.web, s.node)
	switch name {
	case "unknown claim":
		s.refused(text, s.web, "ClaimNotFound", "claim "+s.ns+"/data")
	case "unknown node":
		s.refused(text, s.web, "NodeNotFound", s.node)
	default:
		s.succeeded(text, s.web, s.node)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	faults := map[string]struct {
		do         faultproxy.Action
		code, word string
	}{
		"refused 500": {faultproxy.Answer(http.StatusInternalServerError), "APIError", "Internal Server Error"},
		"refused 503": {faultproxy.Answer(http.StatusServiceUnavailable), "APIError", "Service Unavailable"},
		"refused 504": {faultproxy.Answer(http.StatusGatewayTimeout), "APIError", "Gateway Timeout"},
		"forbidden":   {faultproxy.Answer(http.StatusForbidden), "Forbidden", "RBAC"},
		"cut":         {faultproxy.Cut(), "APIError", "EOF"},
	}
	for name, r := range theReads() {
		for fault, tc := range faults {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				s := r.scene(t, shared.a)
				d := s.always(r.match(s), tc.do)
				s.answered(s.bind(s.web, s.node), tc.code, r.words(s), tc.word)
				if name != "assigned pod" && s.getPod("web").Spec.NodeName != "" {
					t.Error("the pod is bound all the same")
				}
				d.Stop()
				s.readWorks(name)
			})
		}
	}
}

// One that is merely slow, or fails once and comes through, costs nothing else.
func TestReadIsSlow(t *testing.T) {
	t.Parallel()
	for name, r := range theReads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := r.scene(t, shared.a)
			s.once(r.match(s), faultproxy.Delay(300*time.Millisecond))
			s.readWorks(name)
		})
	}
}

// Between a conflict and the second try the object can not be read at first.
func TestS03_ReadAfterAConflictFails(t *testing.T) {
	t.Parallel()
	for name, w := range patches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			reread := w.match(s)
			reread.Verb = "get"
			s.once(w.match(s), faultproxy.Answer(http.StatusConflict))
			failing := s.disturb(faultproxy.Rule{Match: reread, Times: 2, Do: faultproxy.Answer(http.StatusInternalServerError)})
			s.mustBind(s.web, s.node)
			w.afterwards(s)
			if failing.Hits() == 0 {
				t.Error("the object was not read again")
			}
		})
		t.Run(name+", for good", func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			reread := w.match(s)
			reread.Verb = "get"
			s.once(w.match(s), faultproxy.Answer(http.StatusConflict))
			forbidden := s.always(reread, faultproxy.Answer(http.StatusForbidden))
			s.refused(s.bind(s.web, s.node), s.web, "Forbidden", "get "+reread.Resource, reread.Name)
			if forbidden.Hits() != 1 {
				t.Errorf("the object was read %d times, want 1", forbidden.Hits())
			}
			forbidden.Stop()
			s.mustBind(s.web, s.node)
			w.afterwards(s)
		})
	}
}
