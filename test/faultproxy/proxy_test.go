package faultproxy_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/prebind/prebind/test/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream stands for the API server: it answers every request with the same
// volume, notes what it was asked, and serves watches that tick on demand.
type upstream struct {
	mu    sync.Mutex
	asked []string
	ticks chan struct{}
}

const volumeJSON = `{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"disk"}}`

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.asked = append(u.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL, body)))
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !strings.Contains(r.URL.RawQuery, "watch=") {
		_, _ = io.WriteString(w, volumeJSON)
		return
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-u.ticks:
			_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`+volumeJSON+"}\n")
			_ = flush.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.asked)
}

// start returns a proxy, a client that goes through it, and what is behind it.
func start(t *testing.T, seed uint64) (*faultproxy.Proxy, kubernetes.Interface, *upstream) {
	t.Helper()
	behind := &upstream{ticks: make(chan struct{})}
	server := httptest.NewTLSServer(behind)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	proxy, err := faultproxy.Start(faultproxy.Options{
		Target: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}},
		Seed:   seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: proxy.URL(), QPS: -1}, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return proxy, client, behind
}

func patch(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(`{"x":1}`), metav1.PatchOptions{})
	return err
}

var patchVolumes = faultproxy.Match{Verb: "patch", Resource: "persistentvolumes"}

func TestActions(t *testing.T) {
	cut := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "EOF") && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
	}
	tests := map[string]struct {
		do       faultproxy.Action
		want     func(error) bool
		reaches  bool // the API server gets the request
		answered int
	}{
		"a conflict":                     {faultproxy.Answer(409), apierrors.IsConflict, false, 409},
		"too many requests":              {faultproxy.Answer(429), apierrors.IsTooManyRequests, false, 429},
		"an internal error":              {faultproxy.Answer(500), apierrors.IsInternalError, false, 500},
		"unavailable":                    {faultproxy.Answer(503), apierrors.IsServiceUnavailable, false, 503},
		"a time-out of the server":       {faultproxy.Answer(504), apierrors.IsTimeout, false, 504},
		"forbidden":                      {faultproxy.Answer(403), apierrors.IsForbidden, false, 403},
		"cut":                            {faultproxy.Cut(), cut, false, 0},
		"done, and the answer lost":      {faultproxy.Lose(), cut, true, 0},
		"done, and 504 in place of that": {faultproxy.LoseAs(504), apierrors.IsTimeout, true, 504},
		"delayed":                        {faultproxy.Delay(time.Millisecond), func(err error) bool { return err == nil }, true, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			proxy, client, behind := start(t, 0)
			disturbance := proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Times: 1, Do: test.do})
			if err := patch(t.Context(), client, "disk"); !test.want(err) {
				t.Errorf("the client got %v", err)
			}
			if got := len(behind.requests()) == 1; got != test.reaches {
				t.Errorf("the API server got the request: %v, want %v", got, test.reaches)
			}
			requests, err := proxy.WaitRequests(t.Context(), patchVolumes, 1)
			if err != nil {
				t.Fatal(err)
			}
			if r := requests[0]; r.Answered != test.answered || (r.Status == 200) != test.reaches || r.Fault == "" || string(r.Body) != `{"x":1}` {
				t.Errorf("recorded %s with body %s", &r, r.Body)
			}
			if disturbance.Hits() != 1 {
				t.Errorf("%d requests disturbed, want 1", disturbance.Hits())
			}
			if err := patch(t.Context(), client, "disk"); err != nil {
				t.Errorf("the second request is disturbed as well: %v", err)
			}
		})
	}
}

// client-go does again what it is told to do again.
func TestRetryAfterIsInTheAnswer(t *testing.T) {
	proxy, client, _ := start(t, 0)
	proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Times: 1, Do: faultproxy.AnswerRetryAfter(429, time.Second)})
	if err := patch(t.Context(), client, "disk"); err != nil {
		t.Fatal(err)
	}
	if got := len(proxy.Requests(patchVolumes)); got != 2 {
		t.Errorf("%d requests, want the refused one and one more", got)
	}
}

func TestHeldRequestGoesOnWhenReleased(t *testing.T) {
	for name, test := range map[string]struct {
		do      faultproxy.Action
		reaches int // requests at the API server while held
	}{
		"before the API server":           {faultproxy.Hold(), 0},
		"between the API server and back": {faultproxy.HoldAnswer(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, client, behind := start(t, 0)
			held := proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Do: test.do})
			done := make(chan error, 1)
			go func() { done <- patch(t.Context(), client, "disk") }()
			if err := held.WaitHits(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			for len(behind.requests()) < test.reaches { // it is on its way
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-done:
				t.Fatalf("it was answered while held: %v", err)
			default:
			}
			if got := len(behind.requests()); got != test.reaches {
				t.Errorf("%d requests at the API server while held, want %d", got, test.reaches)
			}
			held.Release()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHeldRequestIsDroppedWhenItsClientGivesUp(t *testing.T) {
	proxy, client, behind := start(t, 0)
	held := proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Do: faultproxy.Hold()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- patch(ctx, client, "disk") }()
	if err := held.WaitHits(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the client that gave up got an answer")
	}
	if _, err := proxy.WaitRequests(t.Context(), patchVolumes, 1); err != nil {
		t.Fatal(err)
	}
	held.Release()
	if got := behind.requests(); len(got) > 0 {
		t.Errorf("the API server got %v", got)
	}
}

func TestHooksSeeTheBodyAndBothSides(t *testing.T) {
	proxy, client, behind := start(t, 0)
	var seen []string
	see := func(when string) func(faultproxy.Request) {
		return func(r faultproxy.Request) {
			seen = append(seen, fmt.Sprintf("%s %s %s, status %d, %d at the API server", when, r.Object(), r.Body, r.Status, len(behind.requests())))
		}
	}
	proxy.Disturb(faultproxy.Rule{Match: faultproxy.Match{Name: "a"}, Do: faultproxy.Before(see("before"))})
	proxy.Disturb(faultproxy.Rule{Match: faultproxy.Match{Name: "b"}, Do: faultproxy.After(see("after"))})
	for _, name := range []string{"a", "b"} {
		if err := patch(t.Context(), client, name); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`before persistentvolumes a {"x":1}, status 0, 0 at the API server`,
		`after persistentvolumes b {"x":1}, status 200, 2 at the API server`,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

func TestSkipAndTimes(t *testing.T) {
	proxy, client, _ := start(t, 0)
	proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Skip: 1, Times: 2, Do: faultproxy.Answer(409)})
	var got []bool
	for range 5 {
		got = append(got, patch(t.Context(), client, "disk") != nil)
	}
	if diff := cmp.Diff([]bool{false, true, true, false, false}, got); diff != "" {
		t.Errorf("disturbed (-want +got):\n%s", diff)
	}
}

// What happens to one object depends on the seed, and not on the others.
func TestShareIsReproducible(t *testing.T) {
	outcome := func(seed uint64, names ...string) map[string]string {
		proxy, client, _ := start(t, seed)
		proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Share: 0.3, Do: faultproxy.Answer(409)})
		got := map[string]string{}
		for range 100 {
			for _, name := range names {
				if patch(t.Context(), client, name) != nil {
					got[name] += "x"
				} else {
					got[name] += "."
				}
			}
		}
		return got
	}
	together, alone := outcome(7, "a", "b"), outcome(7, "b")
	if together["b"] != alone["b"] {
		t.Errorf("with a: %s\nalone:  %s", together["b"], alone["b"])
	}
	if other := outcome(8, "b"); other["b"] == alone["b"] {
		t.Error("another seed disturbs the same requests")
	}
	if hits := strings.Count(together["a"]+together["b"], "x"); hits < 40 || hits > 80 {
		t.Errorf("%d of 200 requests disturbed, want about 60", hits)
	}
}

func TestRequestsAreNamedAndCounted(t *testing.T) {
	proxy, client, _ := start(t, 0)
	ctx := t.Context()
	_, _ = client.CoreV1().Pods("shop").Get(ctx, "db-0", metav1.GetOptions{})
	_, _ = client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	_ = client.CoreV1().Pods("shop").Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}}, metav1.CreateOptions{})
	_ = client.CoreV1().Pods("shop").Delete(ctx, "db-0", metav1.DeleteOptions{})
	proxy.Disturb(faultproxy.Rule{Match: patchVolumes, Times: 1, Do: faultproxy.LoseAs(500)})
	for range 2 {
		_ = patch(ctx, client, "disk")
	}
	var got []string
	for _, r := range proxy.Requests(faultproxy.Match{}) {
		got = append(got, r.String())
	}
	want := []string{
		"get pods shop/db-0 -> 200",
		"list persistentvolumes -> 200",
		"create pods/binding shop/db-0 -> 200",
		"delete pods shop/db-0 -> 200",
		"patch persistentvolumes disk -> 500 (API server: 200) [lose the answer as 500]",
		"patch persistentvolumes disk -> 200",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	wantWrites := map[string]int{"create pods/binding shop/db-0": 1, "delete pods shop/db-0": 1, "patch persistentvolumes disk": 2}
	if diff := cmp.Diff(wantWrites, proxy.WritesByObject()); diff != "" {
		t.Errorf("writes that took effect (-want +got):\n%s", diff)
	}
	if n := len(proxy.Requests(faultproxy.Match{Verb: faultproxy.Reads})); n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
	if faults := slices.Collect(maps.Keys(proxy.FaultCounts())); len(faults) != 1 {
		t.Errorf("faults %v, want one kind", faults)
	}
}

func TestWatchesAreHeldAndCut(t *testing.T) {
	proxy, client, behind := start(t, 0)
	volumes := faultproxy.Match{Verb: "watch", Resource: "persistentvolumes"}
	watch, err := client.CoreV1().PersistentVolumes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	behind.ticks <- struct{}{}
	<-watch.ResultChan()
	if n := proxy.OpenWatches(volumes); n != 1 {
		t.Errorf("%d watches are open, want 1", n)
	}

	hold := proxy.HoldWatches(volumes)
	behind.ticks <- struct{}{}
	// The upstream takes no further tick before the last one is flushed, so
	// this one is on its way through the proxy.
	behind.ticks <- struct{}{}
	select {
	case event := <-watch.ResultChan():
		t.Errorf("a held watch delivered %v", event)
	default:
	}
	hold.Release()
	for range 2 {
		if event, ok := <-watch.ResultChan(); !ok || event.Type != "MODIFIED" {
			t.Errorf("after the hold came %v, %v", event, ok)
		}
	}

	if n := proxy.CutWatches(volumes); n != 1 {
		t.Errorf("%d watches were cut, want 1", n)
	}
	for event := range watch.ResultChan() { // closed
		if event.Type != "ERROR" {
			t.Errorf("after the cut came %v", event)
		}
	}
}

func TestStaleListsAskForTheOldState(t *testing.T) {
	proxy, client, behind := start(t, 0)
	proxy.ServeStaleLists("persistentvolumes", "42")
	initial := true
	_, err := client.CoreV1().PersistentVolumes().Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &initial})
	if !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a streaming list is answered %v, want a refusal", err)
	}
	if _, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"GET /api/v1/persistentvolumes?resourceVersion=42&resourceVersionMatch=Exact"}
	if diff := cmp.Diff(want, behind.requests()); diff != "" {
		t.Errorf("at the API server (-want +got):\n%s", diff)
	}
}
