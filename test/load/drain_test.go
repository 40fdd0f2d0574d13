package load_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
)

// TestDrain: SIGTERM with 200 waits and 20 Bindings under way. First prebind is
// not ready and goes on otherwise; then waits are answered while the Bindings
// are still held; and it exits with 0 when those are bound.
func TestDrain(t *testing.T) {
	const waiting, binding, grace = 200, 20, 18 * time.Second
	f := newFixture(t)
	node, class := f.node("a"), f.unserved()
	waiters, held := f.pods("waits", waiting, class), f.pods("held", binding, "")
	delayed, late := f.pods("delayed", 1, ""), f.pods("late", 1, "")
	proxy, bindings := f.holdBindings(binding)
	prebind := f.prebind(controlplane.PrebindOptions{
		Name: "drained", APIServer: proxy.URL(),
		Config: "server: {shutdownDelay: 5s, drainTimeout: 13s}",
	})
	c := newCaller(t, prebind.URL())
	c.start(node, slices.Concat(waiters, held)...)
	f.inFlight(prebind, waiting+binding)
	f.selected(waiters)
	f.eventually("the Bindings are sent", func() (bool, string) { return bindings.Hits() == binding, fmt.Sprint(bindings.Hits()) })

	began, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- prebind.Stop(t.Context()) }() // SIGTERM

	f.unready(prebind)
	c.check("when /readyz has turned", waiters, map[string]int{})
	if a := c.call(node, delayed[0]); a.text != "" {
		t.Errorf("a call during server.shutdownDelay: %s", a.text)
	}
	c.await(f, waiters)
	c.check("drained", waiters, map[string]int{"ShuttingDown": waiting})
	c.check("Bindings that are held", held, map[string]int{})
	for _, pod := range waiters[:1] {
		if text := c.answers[pod.UID][0].text; !strings.Contains(text, "tries again") {
			t.Errorf("the answer does not say that the scheduler tries again: %s", text)
		}
	}
	f.unready(prebind)
	if code, _ := f.get(prebind.OpsURL() + "/livez"); code != http.StatusOK {
		t.Errorf("/livez while Bindings are under way: %d", code)
	}
	if a := c.call(node, late[0]); a.code() != "ShuttingDown" {
		t.Errorf("a call during the drain: %q, want ShuttingDown", a.text)
	}

	bindings.Release()
	c.await(f, held)
	c.check("Bindings let through", held, map[string]int{"": binding})
	f.must(<-stopped)
	f.must(prebind.Err())
	took := time.Since(began)
	t.Logf("measured: from SIGTERM to the end %s, of which 5s are server.shutdownDelay", took.Round(time.Millisecond))
	if took > grace {
		t.Errorf("the exit took %s, longer than server.shutdownDelay and drainTimeout, %s", took, grace)
	}
	f.checkNodes(node, slices.Concat(held, delayed)...)
	f.checkNodes("", slices.Concat(waiters, late)...)
	if a := c.call(node, late[0]); a.code() != "transport" {
		t.Errorf("a call after the end: %q", a.text)
	}
}

// unready waits until /readyz answers 503.
func (f *fixture) unready(p *controlplane.Prebind) {
	f.t.Helper()
	f.eventually("/readyz is 503", func() (bool, string) {
		code, text := f.get(p.OpsURL() + "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(string(text), "shutting down"), string(text)
	})
}

// TestDrainTimeout: a Binding that gets no answer does not keep prebind alive
// beyond the grace, and the exit code tells.
func TestDrainTimeout(t *testing.T) {
	f := newFixture(t)
	node := f.node("a")
	held := f.pods("held", 1, "")
	proxy, bindings := f.holdBindings(1)
	prebind := f.prebind(controlplane.PrebindOptions{Name: "cutoff", APIServer: proxy.URL(), Config: "server: {drainTimeout: 1s}"})
	c := newCaller(t, prebind.URL())
	c.start(node, held...)
	f.eventually("the Binding is sent", func() (bool, string) { return bindings.Hits() == 1, "" })
	f.must(prebind.Stop(t.Context())) // killed after 20 s, which would be an error
	if err := prebind.Err(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("prebind ended with %v, want exit status 1", err)
	}
	if want := "waiting for 1 bind calls to end: context deadline exceeded"; !strings.Contains(prebind.Tail(5), want) {
		t.Errorf("the end of the log lacks %q", want)
	}
	c.await(f, held)
	c.check("cut off", held, map[string]int{"transport": 1})
}

// holdBindings returns a proxy that holds the first n Bindings.
func (f *fixture) holdBindings(n int) (*faultproxy.Proxy, *faultproxy.Disturbance) {
	f.t.Helper()
	proxy, err := faultproxy.Start(faultproxy.Options{Target: plane.AdminConfig()})
	f.must(err)
	f.t.Cleanup(proxy.Stop)
	held := proxy.Disturb(faultproxy.Rule{
		Match: faultproxy.Match{Verb: "create", Resource: "pods/binding", Namespace: f.ns}, Times: n, Do: faultproxy.Hold(),
	})
	return proxy, held
}
