package faults_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/prebind/prebind/test/faultproxy"
)

// write is one of the three writes that prebind makes, in a scene of its own.
type write struct {
	scene func(*testing.T, *stand) *scene
	match func(*scene) faultproxy.Match
	name  func(*scene) string // as faultproxy counts it
	// first are the scene's writes that come before, and this one.
	first func(*scene) map[string]int
	// all are the scene's writes, each as often as it may be carried out.
	all func(*scene) map[string]int
}

func theWrites() map[string]write {
	count := func(names ...func(*scene) string) func(*scene) map[string]int {
		return func(s *scene) map[string]int {
			counts := map[string]int{}
			for _, name := range names {
				counts[name(s)] = 1
			}
			return counts
		}
	}
	return map[string]write{
		"claimRef": {
			staticScene, (*scene).claimRefPatch, (*scene).claimRefWrite,
			count((*scene).claimRefWrite), count((*scene).claimRefWrite, (*scene).bindingWrite),
		},
		"selected-node": {
			dynamicScene, (*scene).selectedNodePatch, (*scene).selectedNodeWrite,
			count((*scene).selectedNodeWrite), count((*scene).selectedNodeWrite, (*scene).bindingWrite),
		},
		"Binding": {
			staticScene, (*scene).binding, (*scene).bindingWrite,
			count((*scene).claimRefWrite, (*scene).bindingWrite), count((*scene).claimRefWrite, (*scene).bindingWrite),
		},
	}
}

// patches are the writes that end with their caller.
func patches() map[string]write {
	writes := theWrites()
	delete(writes, "Binding")
	return writes
}

// afterwards checks what must be true at the end of every scene: the pod is
// bound, to the volume of the plan, and each write was carried out once.
func (w *write) afterwards(s *scene) {
	s.t.Helper()
	s.checkBound(s.web, s.node)
	if s.small != "" {
		s.owned("data", s.small)
		s.free(s.large)
	}
	s.wrote(w.all(s))
}

// S08 for every write: an answer that is lost, late, unclear, or a refusal that
// may pass, costs the call nothing but time.
func TestS08_EveryWriteSurvives(t *testing.T) {
	t.Parallel()
	faults := map[string]struct {
		times int
		do    faultproxy.Action
	}{
		"stored, answer lost":            {1, faultproxy.Lose()},
		"stored, answered 500":           {1, faultproxy.LoseAs(http.StatusInternalServerError)},
		"stored, answered 503":           {1, faultproxy.LoseAs(http.StatusServiceUnavailable)},
		"stored, answered 504":           {1, faultproxy.LoseAs(http.StatusGatewayTimeout)},
		"stored, answered 429":           {1, faultproxy.LoseAs(http.StatusTooManyRequests)},
		"every answer lost":              {0, faultproxy.Lose()},
		"refused 429":                    {1, faultproxy.Answer(http.StatusTooManyRequests)},
		"refused 429 with Retry-After":   {1, faultproxy.AnswerRetryAfter(http.StatusTooManyRequests, time.Second)},
		"refused 500":                    {1, faultproxy.Answer(http.StatusInternalServerError)},
		"refused 503":                    {1, faultproxy.Answer(http.StatusServiceUnavailable)},
		"refused 503 with Retry-After":   {1, faultproxy.AnswerRetryAfter(http.StatusServiceUnavailable, time.Second)},
		"refused 504":                    {1, faultproxy.Answer(http.StatusGatewayTimeout)},
		"refused 503 three times":        {3, faultproxy.Answer(http.StatusServiceUnavailable)},
		"cut":                            {1, faultproxy.Cut()},
		"cut three times":                {3, faultproxy.Cut()},
		"delayed":                        {1, faultproxy.Delay(500 * time.Millisecond)},
		"refused 409 though unchanged":   {1, faultproxy.Answer(http.StatusConflict)},
		"refused 409, again and again":   {3, faultproxy.Answer(http.StatusConflict)},
		"refused 404 though it is there": {1, faultproxy.Answer(http.StatusNotFound)},
	}
	for name, w := range theWrites() {
		for fault, tc := range faults {
			if name == "Binding" && (fault == "refused 409 though unchanged" || fault == "refused 409, again and again") {
				continue // final: see TestS11_BindingIsRefusedByItsUID
			}
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				s := w.scene(t, shared.a)
				s.disturb(faultproxy.Rule{Match: w.match(s), Times: tc.times, Do: tc.do})
				s.succeeded(s.bind(s.web, s.node), s.web, s.node)
				w.afterwards(s)
				if n := len(s.requests(w.match(s))); n > tc.times+1 {
					t.Errorf("the write was sent %d times", n)
				}
			})
		}
	}
}

// A refusal that does not pass ends the call in time, with a clear error, and
// leaves nothing that stands in the way of the next one.
func TestS08_EveryWriteIsGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	faults := map[string]faultproxy.Action{
		"refused 503": faultproxy.Answer(http.StatusServiceUnavailable),
		"cut":         faultproxy.Cut(),
	}
	for name, w := range theWrites() {
		for fault, do := range faults {
			t.Run(name+"/"+fault, func(t *testing.T) {
				t.Parallel()
				s := w.scene(t, shared.a)
				d := s.always(w.match(s), do)
				m := w.match(s)
				s.refused(s.bind(s.web, s.node), s.web, "APIError", m.Name)
				if n := len(s.requests(m)); n > 10 {
					t.Errorf("the write was sent %d times", n)
				}
				d.Stop()
				s.mustBind(s.web, s.node)
				w.afterwards(s)
			})
		}
	}
}

// S40: what RBAC refuses is refused for good.
func TestS40_WriteIsForbidden(t *testing.T) {
	t.Parallel()
	words := map[string][]string{
		"claimRef":      {"patch persistentvolumes"},
		"selected-node": {"patch persistentvolumeclaims"},
		"Binding":       {"create pods/binding"},
	}
	for name, w := range theWrites() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			d := s.always(w.match(s), faultproxy.Answer(http.StatusForbidden))
			s.refused(s.bind(s.web, s.node), s.web, "Forbidden", append(words[name], "RBAC")...)
			if d.Hits() != 1 {
				t.Errorf("the write was sent %d times, want 1", d.Hits())
			}
			if name != "Binding" {
				s.statuses(s.binding())
			}
			s.mustBind(s.pod("plain"), s.node) // pods without claims still bind
			d.Stop()
			s.mustBind(s.web, s.node)
		})
	}
}

// A patch that has not got through when the call's time is over is given up.
func TestWriteIsHeldBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	for name, w := range patches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.hasty)
			held := s.always(w.match(s), faultproxy.Hold())
			s.refused(s.bind(s.web, s.node), s.web, "BindTimeout", hastyTimeout.String())
			held.Stop()
			s.wrote(map[string]int{})
			s.mustBind(s.web, s.node)
			w.afterwards(s)
		})
	}
}

// The patch is carried out, but the call's time is over before prebind hears of
// it. The next call finds it and writes nothing again.
func TestAnswerIsHeldBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	for name, w := range patches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.hasty)
			held := s.once(w.match(s), faultproxy.HoldAnswer())
			s.refused(s.bind(s.web, s.node), s.web, "BindTimeout", hastyTimeout.String())
			held.Stop()
			s.wrote(w.first(s))
			s.mustBind(s.web, s.node)
			w.afterwards(s)
		})
	}
}

// Nothing is written for a caller that has hung up, and no Binding is started.
func TestCallerHangsUp(t *testing.T) {
	t.Parallel()
	for name, w := range patches() {
		t.Run("while the write is held/"+name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			held := s.once(w.match(s), faultproxy.Hold())
			s.hangUp(func() { s.arrived(held, 1) })
			s.wrote(map[string]int{})
			s.mustBind(s.web, s.node)
			w.afterwards(s)
		})
		t.Run("while the answer is held/"+name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			s.once(w.match(s), faultproxy.HoldAnswer())
			s.hangUp(func() { s.stored(w.match(s)) })
			s.wrote(w.first(s))
			s.statuses(s.binding()) // none was sent
			s.mustBind(s.web, s.node)
			w.afterwards(s)
		})
	}
}

// hangUp sends the scene's call and ends it, as the scheduler does when its
// httpTimeout is over, after the wait. It returns when prebind has seen it.
func (s *scene) hangUp(wait func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	answer := s.hasContext(ctx).start(s.web, s.node)
	wait()
	cancel()
	s.answer(answer)
	s.callEnded(s.web, "CallerGone")
	if now := s.getPod(s.web.Name); now.Spec.NodeName != "" {
		s.t.Fatalf("pod %s is on node %s, its caller had gone", now.Name, now.Spec.NodeName)
	}
}

// A write that the network delivers once more, later, changes nothing.
func TestWriteArrivesAgainLater(t *testing.T) {
	t.Parallel()
	for name, w := range theWrites() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := w.scene(t, shared.a)
			s.mustBind(s.web, s.node)
			request := s.requests(w.match(s))[0]
			if code := s.replay(request); code != http.StatusConflict {
				t.Errorf("%s was answered %d when it came again, want 409", request.String(), code)
			}
			w.afterwards(s)
		})
	}
}

// And one that comes again when the pod is gone does not touch its successor.
func TestS11_BindingArrivesAgainForAPodMadeAnew(t *testing.T) {
	t.Parallel()
	s := plainScene(t, shared.a)
	s.mustBind(s.web, s.node)
	request := s.requests(s.binding())[0]
	s.must(s.replacePod("web"))
	if code := s.replay(request); code != http.StatusConflict {
		t.Errorf("%s was answered %d, want 409", request.String(), code)
	}
	if node := s.getPod("web").Spec.NodeName; node != "" {
		t.Errorf("the young pod is on node %s", node)
	}
}

// replay sends a request to the API server once more and returns the status.
func (f *fixture) replay(r faultproxy.Request) int {
	f.t.Helper()
	client := f.client.CoreV1().RESTClient()
	var code int
	if r.Verb == "create" {
		client.Post().Namespace(r.Namespace).Resource("pods").Name(r.Name).SubResource("binding").
			SetHeader("Content-Type", "application/vnd.kubernetes.protobuf").Body(r.Body).Do(f.ctx).StatusCode(&code)
		return code
	}
	client.Patch("application/merge-patch+json").NamespaceIfScoped(r.Namespace, r.Namespace != "").
		Resource(r.Resource).Name(r.Name).Body(r.Body).Do(f.ctx).StatusCode(&code)
	return code
}
