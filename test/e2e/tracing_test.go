package e2e_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// receiver is a collector of spans. What it decodes is the request of OTLP itself.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newReceiver(f *fixture) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			f.t.Errorf("%s %s: %v", req.Method, req.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range export.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	f.t.Cleanup(r.Close)
	return r
}

// tree returns each span of the trace with those that it is in, outermost first, and
// the attributes of the binding cycle.
func (r *receiver) tree(trace string) (paths []string, cycle map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byID, cycle := map[string]*tracepb.Span{}, map[string]string{}
	for _, span := range r.spans {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			byID[string(span.GetSpanId())] = span
		}
	}
	for _, span := range byID {
		path := span.GetName()
		for parent := byID[string(span.GetParentSpanId())]; parent != nil; parent = byID[string(parent.GetParentSpanId())] {
			path = parent.GetName() + " > " + path
		}
		paths = append(paths, path)
		if span.GetName() != "binding cycle" {
			continue
		}
		for _, pair := range span.GetAttributes() {
			cycle[pair.GetKey()] = pair.GetValue().GetStringValue()
			for _, value := range pair.GetValue().GetArrayValue().GetValues() {
				cycle[pair.GetKey()] += value.GetStringValue() + " "
			}
		}
	}
	slices.Sort(paths)
	return paths, cycle
}

// One bind call of a caller that traces: a span for each stage and each request to the
// API server.
func TestTracing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	collector := newReceiver(f)
	p := shared.startPrebind(t, controlplane.PrebindOptions{Name: f.name("traced"), Config: "tracing: {endpoint: '" + collector.URL + "'}"})
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.volume(newVolume("pv", class, node))
	f.claim(newClaim("data", class))
	f.claim(newClaim("log", f.dynamic("fast", params(provisioner.Hold, "false"))))
	pod := f.pod(newPod("web", nobody, "data", "log"))

	const trace = "0af7651916cd43dd8448eb211c80319c"
	body, err := json.Marshal(bindArgs(pod, node))
	f.must(err)
	req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, p.URL()+"/v1/bind", bytes.NewReader(body))
	f.must(err)
	req.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	resp, err := http.DefaultClient.Do(req)
	f.must(err)
	text, err := io.ReadAll(resp.Body)
	f.must(err)
	f.must(resp.Body.Close())
	if strings.TrimSpace(string(text)) != `{"Error":""}` {
		t.Fatalf("answer %s", text)
	}
	f.checkBound(pod, node)

	const cycle = "POST /v1/bind > binding cycle"
	want := []string{
		"POST /v1/bind", cycle, cycle + " > admit", cycle + " > bind", cycle + " > bind > POST pods/binding",
		cycle + " > permit", cycle + " > postBind", cycle + " > preBind", cycle + " > preBind > PATCH persistentvolumeclaims",
		cycle + " > preBind > PATCH persistentvolumes", cycle + " > preBind > wait for claims", cycle + " > reserve",
	}
	// What the watches do not show yet is read live.
	isRead := func(path string) bool { return strings.Contains(path, " > GET ") }
	f.eventually("all spans have come", func() bool {
		paths, _ := collector.tree(trace)
		return len(slices.DeleteFunc(paths, isRead)) >= len(want)
	})
	paths, about := collector.tree(trace)
	paths = slices.DeleteFunc(paths, isRead)
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	delete(about, "prebind.request_id")
	wantAbout := map[string]string{
		"k8s.namespace.name": f.ns, "k8s.pod.name": "web", "k8s.pod.uid": string(pod.UID), "k8s.node.name": node,
		"prebind.claims": f.ns + "/data " + f.ns + "/log ",
	}
	if diff := cmp.Diff(wantAbout, about); diff != "" {
		t.Errorf("attributes of the cycle (-want +got):\n%s", diff)
	}
}
