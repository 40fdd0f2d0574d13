package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/status"
)

func TestStatusUsage(t *testing.T) {
	noCluster(t)
	tests := map[string]struct {
		args   []string
		stderr string
	}{
		"an unknown format":              {[]string{"-o", "yaml"}, `unknown --output "yaml", known ones: table, json`},
		"an address without a port":      {[]string{"--address", "localhost"}, `--address "localhost": must be HOST:PORT, such as 127.0.0.1:8889`},
		"an address without a host":      {[]string{"--address", ":8889"}, `--address ":8889": must be HOST:PORT`},
		"two targets":                    {[]string{"--service", "a", "--deployment", "b"}, "--service and --deployment exclude each other"},
		"an address and a service":       {[]string{"--service", "a", "--address", "b:1"}, "--address asks one instance"},
		"a namespace alone":              {[]string{"--namespace", "a"}, "--namespace and --kubeconfig need a --service or a --deployment"},
		"a service, but no cluster":      {[]string{"--service", "a"}, "no --kubeconfig, no clientConnection.kubeconfig, not inside a cluster"},
		"a kubeconfig that is not there": {[]string{"--service", "a", "--kubeconfig", "/missing"}, "loading the kubeconfig /missing (--kubeconfig)"},
		"an argument":                    {[]string{"now"}, `unknown command "now"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"status"}, tc.args...), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d, want 2", code)
			}
			wantParts(t, "stderr", stderr.String(), []string{tc.stderr, "See 'prebind status --help'."})
			wantParts(t, "stdout", stdout.String(), nil)
		})
	}
}

// debugged is an instance that answers with a number of running calls, which
// grows with each answer. down makes it answer 503.
type debugged struct {
	address string
	asked   atomic.Int32
	down    atomic.Bool
}

func newDebugged(t *testing.T) *debugged {
	t.Helper()
	d := &debugged{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := d.asked.Add(1)
		if d.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		now := time.Now()
		answer := status.Status{APIVersion: status.APIVersion, Kind: status.Kind, Time: now, RunningTotal: int(n)}
		answer.Instance = status.Instance{Host: "node-1", Version: "v0.1.0", Started: now.Add(-time.Hour)}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	d.address = server.Listener.Addr().String()
	return d
}

func TestStatusShowsOneInstance(t *testing.T) {
	d := newDebugged(t)
	for n, address := range []string{d.address, "http://" + d.address + "/"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"status", "--address", address}, &stdout, &stderr); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		wantParts(t, "stderr", stderr.String(), nil)
		wantParts(t, "stdout", stdout.String(), []string{"prebind v0.1.0 on node-1 (" + d.address + "), up 1h0m, at ", fmt.Sprintf("\nRUNNING: %d\n", n+1), "\nRESERVED: 0\n"})
	}
}

func TestStatusAsJSON(t *testing.T) {
	d := newDebugged(t)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"status", "--address", d.address, "-o", "json"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var list status.List
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "StatusList" || list.APIVersion != "prebind.dev/v1alpha1" || len(list.Items) != 1 || list.Items[0].RunningTotal != 1 || list.Items[0].Instance.Name != d.address {
		t.Errorf("got %+v", list)
	}
}

func TestStatusWithoutAnswer(t *testing.T) {
	off := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"Error":"GET /debug/prebind is off; set server.debug: true"}`)
	}))
	defer off.Close()
	for _, more := range [][]string{nil, {"--watch"}, {"-o", "json"}} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"status", "--address", off.Listener.Addr().String()}, more...)
		if code := run(t.Context(), args, &stdout, &stderr); code != exitFailure {
			t.Errorf("%v: exit code %d, want 1", more, code)
		}
		wantParts(t, "stderr", stderr.String(), []string{"prebind: asking " + off.Listener.Addr().String() + ": GET /debug/prebind is off; set server.debug: true\n"})
		wantParts(t, "stdout", stdout.String(), nil)
	}
}

// Two pods behind a Service, one of which does not answer: the other one is
// shown, and the exit code tells.
func TestStatusOfAService(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/namespaces/storage/services/binder"):
			_, _ = io.WriteString(w, `{"spec":{"selector":{"app":"prebind"}}}`)
		case strings.HasSuffix(path, "/namespaces/storage/pods"):
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"storage","name":"a"},"status":{"phase":"Running"}},{"metadata":{"namespace":"storage","name":"b"},"status":{"phase":"Running"}}]}`)
		case strings.HasSuffix(path, "/pods/http:a:8889/proxy/debug/prebind"):
			_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"runningTotal":3}`, status.Kind, status.APIVersion)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
		}
	}))
	defer api.Close()
	kubeconfig := write(t, "kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n", api.URL))
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"status", "--kubeconfig", kubeconfig, "--namespace", "storage", "--service", "binder"}, &stdout, &stderr)
	if code != exitFailure {
		t.Errorf("exit code %d, want 1", code)
	}
	wantParts(t, "stdout", stdout.String(), []string{"(storage/a)", "\nRUNNING: 3\n"})
	wantParts(t, "stderr", stderr.String(), []string{"prebind: asking storage/b: you may not get pods/proxy"})
}

// written is a writer whose text can be read meanwhile.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *written) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *written) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Without a terminal each state is printed after the other; an instance that goes
// away may come back; and the end, by SIGINT as well, is a good one.
func TestStatusWatch(t *testing.T) {
	d := newDebugged(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr written
	view := &statusView{
		sources: func(context.Context) ([]status.Source, error) { return []status.Source{status.HTTP(d.address)}, nil },
		out:     &stdout, errs: &stderr,
	}
	ended := make(chan error, 1)
	go func() { ended <- view.watch(ctx, time.Millisecond) }()
	poll(func() bool { return strings.Count(stdout.String(), "\n---\n") >= 3 })
	d.down.Store(true)
	poll(func() bool {
		return strings.Contains(stderr.String(), "prebind: asking "+d.address+": the answer is 503")
	})
	before := strings.Count(stdout.String(), "\n---\n")
	d.down.Store(false)
	poll(func() bool { return strings.Count(stdout.String(), "\n---\n") > before })
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("watch ended with %v", err)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Error("escape sequences without a terminal")
	}
}

func TestScreenDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, size: func() (int, int) { return 10, 3 }}
	for _, text := range []string{"one\ntwo\n", "a line that is too long\nb\nc\nd\n"} {
		if err := s.draw(text); err != nil {
			t.Fatal(err)
		}
	}
	s.close()
	s.close()                             // once is enough
	const want = "\x1b[?1049h\x1b[?25l" + // another screen, without a cursor
		"\x1b[H" + "one\x1b[K\n" + "two\x1b[K" + "\x1b[J" +
		"\x1b[H" + "a line th…\x1b[K\n" + "b\x1b[K\n" + "... and 2…\x1b[K" + "\x1b[J" +
		"\x1b[?25h\x1b[?1049l"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
