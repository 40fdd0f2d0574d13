package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/prebind/prebind/test/balancer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// replica is a backend that tests make ready, unready and dead.
type replica struct {
	name       string
	verbs, ops *httptest.Server
	unready    atomic.Bool
	served     atomic.Int64
	handle     http.HandlerFunc // nil: answer the name and the body
}

func newReplica(t *testing.T, name string, handle http.HandlerFunc) *replica {
	t.Helper()
	r := &replica{name: name, handle: handle}
	r.verbs = httptest.NewServer(http.HandlerFunc(r.serve))
	r.ops = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/readyz" || r.unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.verbs.Close)
	t.Cleanup(r.ops.Close)
	return r
}

func (r *replica) serve(w http.ResponseWriter, q *http.Request) {
	r.served.Add(1)
	if r.handle != nil {
		r.handle(w, q)
		return
	}
	body, _ := io.ReadAll(q.Body)
	w.Header().Set("X-Request-Id", q.Header.Get("X-Request-Id"))
	_, _ = fmt.Fprintf(w, "%s %s %s %s", r.name, q.Method, q.URL.RequestURI(), body)
}

func (r *replica) backend() balancer.Backend {
	return balancer.Backend{URL: r.verbs.URL, OpsURL: r.ops.URL}
}

// front is a balancer with all that it told of.
type front struct {
	*balancer.Balancer
	client http.Client

	mu        sync.Mutex
	exchanges []balancer.Exchange
}

func start(t *testing.T, replicas ...*replica) *front {
	t.Helper()
	f := &front{client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	var backends []balancer.Backend
	for _, r := range replicas {
		backends = append(backends, r.backend())
	}
	var err error
	f.Balancer, err = balancer.Start(t.Context(), balancer.Options{
		Interval: 5 * time.Millisecond,
		Answered: func(e balancer.Exchange) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.exchanges = append(f.exchanges, e)
		},
	}, backends...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

// post sends a request and returns status and body.
func (f *front) post(ctx context.Context, t *testing.T, body string) (code int, text string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+"/v1/bind?a=b", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", "id-1")
	response, err := f.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// mustPost expects a status and the beginning of the body.
func (f *front) mustPost(t *testing.T, body string, code int, prefix string) {
	t.Helper()
	gotCode, got, err := f.post(t.Context(), t, body)
	if err != nil || gotCode != code || !strings.HasPrefix(got, prefix) {
		t.Fatalf("got %d %q (%v), want %d %q", gotCode, got, err, code, prefix)
	}
}

// awaitReady waits until exactly these replicas get requests.
func (f *front) awaitReady(t *testing.T, replicas ...*replica) {
	t.Helper()
	want := []string{}
	for _, r := range replicas {
		want = append(want, r.verbs.URL)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !slices.Equal(f.Ready(), want); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("ready are %v, want %v", f.Ready(), want)
		}
	}
}

func TestTakesTurnsAmongTheReady(t *testing.T) {
	a, b := newReplica(t, "a", nil), newReplica(t, "b", nil)
	f := start(t, a, b)
	for range 4 {
		if code, text, err := f.post(t.Context(), t, "x"); code != 200 || !strings.HasSuffix(text, " POST /v1/bind?a=b x") {
			t.Fatalf("%d %q, %v", code, text, err)
		}
	}
	if a.served.Load() != 2 || b.served.Load() != 2 {
		t.Errorf("a served %d, b %d, want 2 each", a.served.Load(), b.served.Load())
	}
	a.unready.Store(true)
	f.awaitReady(t, b)
	for range 4 {
		f.mustPost(t, "x", 200, "b ")
	}
	b.unready.Store(true)
	f.awaitReady(t)
	f.mustPost(t, "x", 503, "balancer: no replica is ready")
	a.unready.Store(false)
	f.awaitReady(t, a)
	f.mustPost(t, "x", 200, "a ")
}

// TestNextReplicaOnlyIfNothingWasSent: a replica that refuses the connection
// has seen nothing, one that broke it may have acted.
func TestNextReplicaOnlyIfNothingWasSent(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	halfAnswer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"Error":""`)
		panic(http.ErrAbortHandler)
	}
	tests := map[string]struct {
		handle http.HandlerFunc
		dead   bool
		code   int
		prefix string
		served int64 // by the good replica
	}{
		"refuses the connection": {dead: true, code: 200, prefix: "good ", served: 1},
		"hangs up":               {handle: hangUp, code: 502, prefix: "balancer: "},
		"answers a half":         {handle: halfAnswer, code: 502, prefix: "balancer: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bad, good := newReplica(t, "bad", tc.handle), newReplica(t, "good", nil)
			f := start(t, bad, good)
			if tc.dead {
				bad.verbs.Close()
			}
			f.mustPost(t, "x", tc.code, tc.prefix)
			if good.served.Load() != tc.served {
				t.Errorf("the good replica served %d, want %d", good.served.Load(), tc.served)
			}
			if !tc.dead && bad.served.Load() != 1 {
				t.Errorf("the bad replica got the request %d times, want once", bad.served.Load())
			}
		})
	}
}

func TestTellsOfEachExchange(t *testing.T) {
	a := newReplica(t, "a", nil)
	f := start(t, a)
	f.mustPost(t, "x", 200, "a ")
	a.unready.Store(true)
	f.awaitReady(t)
	f.mustPost(t, "y", 503, "balancer: ")
	f.mu.Lock()
	defer f.mu.Unlock()
	var got []string
	for _, e := range f.exchanges {
		got = append(got, fmt.Sprintf("%t %s %s %s %d %s (%v)", e.Backend == a.verbs.URL, e.Method, e.Path, e.Request, e.Code, e.Answer, e.Err))
	}
	want := []string{
		"true POST /v1/bind x 200 a POST /v1/bind?a=b x (<nil>)",
		"false POST /v1/bind y 503 balancer: no replica is ready\n (no replica is ready)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestCallerHangsUp: the replica sees it too, as it would without a balancer.
func TestCallerHangsUp(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	a := newReplica(t, "a", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // net/http watches the connection after that
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	f := start(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, _, err := f.post(ctx, t, "x"); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the replica was not told that the caller hung up")
	}
}
