package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// caller plays kube-scheduler: HTTP/1.1 over the default transport's dialer,
// connections kept, no limit on the calls at once. It keeps every answer.
type caller struct {
	t      *testing.T
	url    string
	client *http.Client

	running sync.WaitGroup
	mu      sync.Mutex
	answers map[types.UID][]answer
}

// answer is what one call came to.
type answer struct {
	text string // the result's Error, "" for success; "transport: ..." if there was no result
	took time.Duration
}

// code is the first word of the answer's text.
func (a answer) code() string {
	code, _, _ := strings.Cut(a.text, ":")
	return code
}

func newCaller(t *testing.T, url string) *caller {
	t.Helper()
	// It keeps two idle connections, as kube-scheduler does over plain HTTP.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, url: url, client: &http.Client{Transport: transport}, answers: map[types.UID][]answer{}}
}

// needFiles ends the test if there are not enough file descriptors. Go has
// raised the soft limit to the hard one by itself, here and in prebind.
func needFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < n {
		t.Fatalf("the limit on open files is %d, the test needs %d: see ulimit -n", limit.Cur, n)
	}
}

// start sends calls for all the pods at once and returns.
func (c *caller) start(node string, pods ...*corev1.Pod) {
	for _, pod := range pods {
		c.running.Go(func() { c.call(node, pod) })
	}
}

// call sends one and waits for its answer.
func (c *caller) call(node string, pod *corev1.Pod) answer {
	began := time.Now()
	text, err := c.post(context.WithoutCancel(c.t.Context()), node, pod)
	if err != nil {
		text = "transport: " + err.Error()
	}
	a := answer{text, time.Since(began)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[pod.UID] = append(c.answers[pod.UID], a)
	return a
}

func (c *caller) post(ctx context.Context, node string, pod *corev1.Pod) (string, error) {
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/bind", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	return result(response.StatusCode, text)
}

// result reads the Error of an answer. kube-scheduler takes whatever is 200 and
// has no Error for a success, so here nothing but a complete result will do.
func result(code int, text []byte) (string, error) {
	var fields map[string]*string
	if err := json.Unmarshal(text, &fields); err != nil || code != http.StatusOK || len(fields) != 1 || fields["Error"] == nil {
		return "", fmt.Errorf("status %d with %q, which is no result", code, text)
	}
	return *fields["Error"], nil
}

// count tells how many of the pods have been answered, by code; "" is success.
// A pod with more than one answer fails the test.
func (c *caller) count(pods []*corev1.Pod) map[string]int {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, pod := range pods {
		if n := len(c.answers[pod.UID]); n > 1 {
			c.t.Errorf("pod %s has %d answers to one call: %v", pod.Name, n, c.answers[pod.UID])
		}
		for _, a := range c.answers[pod.UID] {
			counts[a.code()]++
		}
	}
	return counts
}

// check compares the answers for the pods, by code, with what is wanted.
func (c *caller) check(when string, pods []*corev1.Pod, want map[string]int) {
	c.t.Helper()
	got := c.count(pods)
	if maps.Equal(got, want) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		for _, a := range c.answers[pod.UID] {
			if _, known := want[a.code()]; !known {
				c.t.Fatalf("%s: answers by code %v, want %v; the first of another kind, for %s: %s", when, got, want, pod.Name, a.text)
			}
		}
	}
	c.t.Fatalf("%s: answers by code %v, want %v", when, got, want)
}

// checkGone checks that all were answered that their pod is gone: a deletion is
// seen either while it goes on or when it is done.
func (c *caller) checkGone(when string, pods []*corev1.Pod) {
	c.t.Helper()
	counts := c.count(pods)
	if n := counts["PodTerminating"] + counts["PodNotFound"]; n != len(pods) || len(counts) > 2 {
		c.t.Fatalf("%s: answers by code %v, want %d, each PodTerminating or PodNotFound", when, counts, len(pods))
	}
}

// await waits for the answers to all calls that were started for the pods.
func (c *caller) await(f *fixture, pods []*corev1.Pod) {
	c.t.Helper()
	f.eventually(fmt.Sprintf("%d calls are answered", len(pods)), func() (bool, string) {
		counts := c.count(pods)
		n := 0
		for _, count := range counts {
			n += count
		}
		return n == len(pods), fmt.Sprintf("answers by code: %v", counts)
	})
}

// times prints how long the calls for the pods took.
func (c *caller) times(what string, pods []*corev1.Pod) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var took []time.Duration
	for _, pod := range pods {
		for _, a := range c.answers[pod.UID] {
			took = append(took, a.took)
		}
	}
	slices.Sort(took)
	at := func(p float64) time.Duration { return took[int(p*float64(len(took)-1))].Round(time.Millisecond) }
	c.t.Logf("measured: %s: %d calls, p50 %s, p90 %s, p99 %s, max %s", what, len(took), at(.5), at(.9), at(.99), at(1))
}
