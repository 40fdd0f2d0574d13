package server_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/server"
	"github.com/prebind/prebind/volumes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bindFunc is a Binder of one function.
type bindFunc func(ctx context.Context, req binder.Request) error

func (f bindFunc) Bind(ctx context.Context, req binder.Request) error { return f(ctx, req) }

// anyNode is a Nodes that finds every node equally good.
type anyNode struct{}

func (anyNode) Seen(*v1.Pod) {}

func (anyNode) Filter(_ context.Context, _ *v1.Pod, nodes []volumes.Node) ([]string, error) {
	return make([]string, len(nodes)), nil
}

func (anyNode) Score(_ context.Context, _ *v1.Pod, nodes []volumes.Node) ([]int64, error) {
	return make([]int64, len(nodes)), nil
}

// strictBinder binds whatever is complete, and refuses the rest like the real
// one.
func strictBinder(_ context.Context, req binder.Request) error {
	if req.Namespace == "" || req.Name == "" || req.UID == "" || req.Node == "" {
		return fault.New(fault.InvalidRequest, "an argument is missing")
	}
	return nil
}

// instance is a running server.
type instance struct {
	srv         *server.Server
	url, opsURL string
	client      *http.Client
	logs        *observer.ObservedLogs
	stop        context.CancelFunc
	stopped     chan error // gets Run's result
}

// start runs a server on free ports until the test ends.
func start(t testing.TB, cfg server.Config) *instance {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg.OpsAddress, cfg.Logger = "127.0.0.1:0", zap.New(core)
	if cfg.Nodes == nil {
		cfg.Nodes = anyNode{}
	}
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	transport := &http.Transport{}
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	i := &instance{
		srv: srv,
		url: scheme + srv.Addr().String(), opsURL: "http://" + srv.OpsAddr().String(),
		client: &http.Client{Transport: transport}, logs: logs, stop: stop, stopped: make(chan error, 1),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.stopped <- srv.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		<-done
	})
	return i
}

// answer is what came back, body read.
type answer struct {
	code   int
	header http.Header
	body   string
	close  bool // the connection is to be closed
}

// do sends a request.
func (i *instance) do(t testing.TB, method, url, body string, header http.Header) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := i.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return read(t, resp)
}

// read reads an answer whole.
func read(t testing.TB, resp *http.Response) answer {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text), resp.Close}
}

// bind posts a body to /v1/bind and returns the result's Error. Anything but
// 200 with a complete result fails the test.
func (i *instance) bind(t testing.TB, body string) string {
	t.Helper()
	return i.do(t, http.MethodPost, i.url+"/v1/bind", body, nil).result(t)
}

// result returns the Error of a complete ExtenderBindingResult, see bind.
func (a answer) result(t testing.TB) string {
	t.Helper()
	if a.code != http.StatusOK {
		t.Fatalf("status %d, body %s", a.code, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q", got)
	}
	var result *extenderv1.ExtenderBindingResult
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil || result == nil || decoder.More() || !strings.Contains(a.body, `"Error"`) {
		t.Fatalf("200 with %q, which is no ExtenderBindingResult (%v)", a.body, err)
	}
	return result.Error
}

// validBody is a complete ExtenderBindingArgs.
const validBody = `{"PodName":"db-0","PodNamespace":"shop","PodUID":"u-1","Node":"node-7"}`
