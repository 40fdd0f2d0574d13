package tracing_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector receives spans as OTLP/HTTP has them.
type collector struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	spans []*tracepb.Span
	about map[string]string // attributes of the resource
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("got %s %s with %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err != nil {
		c.t.Error(err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range data.GetResourceSpans() {
		c.about = attributes(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// received returns the spans, in the order in which they began.
func (c *collector) received() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.spans), func(a, b *tracepb.Span) int {
		return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano())
	})
}

func attributes(pairs []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, pair := range pairs {
		all[pair.GetKey()] = pair.GetValue().GetStringValue()
	}
	return all
}
