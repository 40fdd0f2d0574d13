package load_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// holdProxy stands between prebind and the API server and holds the Bindings of
// some pods until it is told to let them through.
type holdProxy struct {
	url    string
	prefix string // of the names of those pods

	mu   sync.Mutex
	held int
	open chan struct{}
	once sync.Once // closes open
}

func newHoldProxy(t *testing.T, prefix string) *holdProxy {
	t.Helper()
	config := plane.AdminConfig() // client-go sends no token of its own over plain HTTP
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &holdProxy{prefix: prefix, open: make(chan struct{})}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") && strings.Contains(r.URL.Path, "/pods/"+p.prefix) {
			p.mu.Lock()
			p.held++
			p.mu.Unlock()
			select {
			case <-p.open:
			case <-r.Context().Done():
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	p.url = server.URL
	t.Cleanup(func() {
		p.release()
		server.CloseClientConnections() // watches never end by themselves
		server.Close()
	})
	return p
}

// release lets all through, those that are held and those to come.
func (p *holdProxy) release() { p.once.Do(func() { close(p.open) }) }

func (p *holdProxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
