package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/server"
)

const refusalsName = "prebind_tls_client_refusals_total"

// secure is a server that wants client certificates, with what goes with it.
type secure struct {
	*instance
	ca, clientCA *testCA
	files        *files
	registry     *prometheus.Registry
}

// startSecure runs one. Bind answers success if bind is nil.
func startSecure(t testing.TB, bind bindFunc, allowed ...string) *secure {
	t.Helper()
	if bind == nil {
		bind = strictBinder
	}
	s := &secure{ca: newCA(t, "serving-ca"), clientCA: newCA(t, "client-ca"), registry: prometheus.NewRegistry()}
	s.files = newFiles(t, s.ca.issue(t, "prebind", nil), s.clientCA.pem)
	s.instance = start(t, server.Config{Binder: bind, Registry: s.registry, TLS: s.files.config(true, allowed...)})
	return s
}

// caller makes a client with a certificate of the client CA.
func (s *secure) caller(t testing.TB, name string) *http.Client {
	t.Helper()
	pair := s.clientCA.issue(t, name, nil)
	return client(t, s.ca, &pair, nil)
}

// post sends a bind call and returns what the scheduler would make of it: the
// error of the transport, or the result's.
func (s *secure) post(t testing.TB, c *http.Client, body string) (result, proto string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/bind", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", resp.Proto, err
	}
	return answer{resp.StatusCode, resp.Header, string(text), resp.Close}.result(t), resp.Proto, nil
}

// refusals returns how many clients were refused for a reason.
func (s *secure) refusals(t testing.TB, reason string) float64 {
	t.Helper()
	return sample(t, s.registry, refusalsName, reason)
}

// sample returns the value of a counter or gauge whose one label, if it has
// any, has this value.
func sample(t testing.TB, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s with label %q", name, label)
	return 0
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		<-ticker.C
	}
}

// TestTLSCallers: who is served, who is not, what the scheduler gets to read,
// and that nothing of a refused call reaches the binder.
func TestTLSCallers(t *testing.T) {
	called := make(chan string, 100)
	s := startSecure(t, func(_ context.Context, req binder.Request) error {
		called <- req.Name
		return nil
	}, "scheduler", "scheduler.example.com", "spiffe://cluster/scheduler", "scheduler@example.com")
	spiffe, _ := url.Parse("spiffe://cluster/scheduler")
	tests := map[string]struct {
		ca     *testCA // default: the client CA
		name   string
		none   bool // no certificate
		change func(*x509.Certificate)
		// What the call is answered, and as what it is counted.
		result, reason string
	}{
		"common name":    {name: "scheduler"},
		"DNS name":       {name: "x", change: func(c *x509.Certificate) { c.DNSNames = []string{"y", "scheduler.example.com"} }},
		"URI":            {name: "x", change: func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} }},
		"e-mail address": {change: func(c *x509.Certificate) { c.EmailAddresses = []string{"scheduler@example.com"} }},
		"no certificate": {none: true, reason: "no-certificate", result: "ClientRefused: a call without a client certificate is not accepted by prebind: set tlsConfig.certFile and keyFile in the scheduler's extender entry"},
		"another authority": {
			ca: newCA(t, "other-ca"), name: "scheduler", reason: "unknown-authority",
			result: `ClientRefused: the client certificate of "scheduler", issued by "other-ca", is not accepted by prebind: x509: certificate signed by unknown authority`,
		},
		"the serving CA": {
			ca: s.ca, name: "scheduler", reason: "unknown-authority",
			result: `ClientRefused: the client certificate of "scheduler", issued by "serving-ca", is not accepted by prebind: x509: certificate signed by unknown authority`,
		},
		"an authority of the same name": {
			ca: newCA(t, "client-ca"), name: "scheduler", reason: "unknown-authority",
			result: `ClientRefused: the client certificate of "scheduler", issued by "client-ca", is not accepted by prebind: x509: certificate signed by unknown authority`,
		},
		"expired": {
			name: "scheduler", change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, reason: "expired",
			result: `ClientRefused: the client certificate of "scheduler", issued by "client-ca", is not accepted by prebind: x509: certificate has expired or is not yet valid: `,
		},
		"not yet valid": {
			name: "scheduler", change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, reason: "expired",
			result: `ClientRefused: the client certificate of "scheduler", issued by "client-ca", is not accepted by prebind: x509: certificate has expired or is not yet valid: `,
		},
		"not for clients": {
			name: "scheduler", change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, reason: "protocol",
			result: `ClientRefused: the client certificate of "scheduler", issued by "client-ca", is not accepted by prebind: x509: certificate specifies an incompatible key usage`,
		},
		"another name": {
			name: "Scheduler", reason: "name-not-allowed",
			result: `ClientRefused: the client certificate of "Scheduler", issued by "client-ca", is not among server.tls.allowedClientNames of prebind`,
		},
		"no name": {
			reason: "name-not-allowed",
			result: `ClientRefused: the client certificate of nobody, issued by "client-ca", is not among server.tls.allowedClientNames of prebind`,
		},
		"many names": {
			name: "a", change: func(c *x509.Certificate) { c.DNSNames = []string{"b", "c", "d", "e", "f"} }, reason: "name-not-allowed",
			result: `ClientRefused: the client certificate of "a" "b" "c" "d" "e" ..., issued by "client-ca", is not among server.tls.allowedClientNames of prebind`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ca := tc.ca
			if ca == nil {
				ca = s.clientCA
			}
			pair := ca.issue(t, tc.name, tc.change)
			c := client(t, s.ca, &pair, nil)
			if tc.none {
				c = client(t, s.ca, nil, nil)
			}
			var before float64
			if tc.reason != "" {
				before = s.refusals(t, tc.reason)
			}
			result, proto, err := s.post(t, c, validBody)
			if err != nil || proto != "HTTP/2.0" || !strings.HasPrefix(result, tc.result) || tc.result == "" && result != "" {
				t.Errorf("error %v, result %q over %s, want %q over HTTP/2.0", err, result, proto, tc.result)
			}
			select {
			case <-called:
				if tc.reason != "" {
					t.Error("the binder was called")
				}
			default:
				if tc.reason == "" {
					t.Error("the binder was not called")
				}
			}
			if tc.reason != "" {
				eventually(t, tc.reason+" is counted once", func() bool { return s.refusals(t, tc.reason) == before+1 })
				eventually(t, tc.reason+" is logged", func() bool {
					for _, entry := range s.logs.FilterMessage("client refused").All() {
						if entry.ContextMap()["reason"] == tc.reason {
							return true
						}
					}
					return false
				})
			}
		})
	}
}

// TestTLSVersions: TLS 1.2 and 1.3 with good ciphers, HTTP/2 and HTTP/1.1.
func TestTLSVersions(t *testing.T) {
	s := startSecure(t, nil)
	pair := s.clientCA.issue(t, "scheduler", nil)
	tests := map[string]struct {
		change func(*http.Transport)
		proto  string
		err    string
	}{
		"TLS 1.3, HTTP/2": {func(tr *http.Transport) { tr.TLSClientConfig.MinVersion = tls.VersionTLS13 }, "HTTP/2.0", ""},
		"TLS 1.2, HTTP/2": {func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 }, "HTTP/2.0", ""},
		"HTTP/1.1":        {func(tr *http.Transport) { tr.ForceAttemptHTTP2 = false }, "HTTP/1.1", ""},
		"TLS 1.1": {func(tr *http.Transport) {
			tr.TLSClientConfig.MinVersion, tr.TLSClientConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}, "", "tls: protocol version not supported"},
		"a cipher without AEAD": {func(tr *http.Transport) {
			tr.TLSClientConfig.MaxVersion = tls.VersionTLS12
			tr.TLSClientConfig.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		}, "", "tls: handshake failure"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result, proto, err := s.post(t, client(t, s.ca, &pair, tc.change), validBody)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || result != "" || proto != tc.proto {
				t.Errorf("error %v, result %q over %s, want success over %s", err, result, proto, tc.proto)
			}
		})
	}
}

// TestTLSWithoutClientCA: anybody is served, and only over TLS.
func TestTLSWithoutClientCA(t *testing.T) {
	ca := newCA(t, "serving-ca")
	i := start(t, server.Config{Binder: bindFunc(strictBinder), TLS: newFiles(t, ca.issue(t, "prebind", nil), ca.pem).config(false)})
	s := &secure{instance: i}
	if result, proto, err := s.post(t, client(t, ca, nil, nil), validBody); err != nil || result != "" || proto != "HTTP/2.0" {
		t.Errorf("error %v, result %q over %s", err, result, proto)
	}
}

// TestPlainHTTPToTLS: a bind call gets a text that ends in the pod's event,
// anything else a status that no health checker takes for a success.
func TestPlainHTTPToTLS(t *testing.T) {
	s := startSecure(t, func(context.Context, binder.Request) error {
		t.Error("the binder was called")
		return nil
	})
	plain := strings.Replace(s.url, "https", "http", 1)
	const text = "plain HTTP was sent to prebind's HTTPS port; in the scheduler's extender entry set urlPrefix to https://... and enableHTTPS to true"
	if got, want := s.do(t, http.MethodPost, plain+"/v1/bind", validBody, nil).result(t), "ClientRefused: "+text; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions} {
		if resp := s.do(t, method, plain+"/readyz", "", nil); resp.code != http.StatusBadRequest || resp.body != text+"\n" {
			t.Errorf("%s /readyz: %d %q", method, resp.code, resp.body)
		}
	}
	// Nobody reads all of a large body.
	if resp := s.do(t, http.MethodPost, plain+"/v1/bind", strings.Repeat("x", 60<<10), nil); resp.code != http.StatusOK {
		t.Errorf("a large body: %d %s", resp.code, resp.body)
	}
	if got := s.refusals(t, "plain-http"); got != 5 {
		t.Errorf("%v refusals counted, want 5", got)
	}
	if lines := s.logs.FilterMessage("client refused").Len(); lines != 1 {
		t.Errorf("%d lines logged, want 1: the others come from the same host for the same reason within a minute", lines)
	}
}

// TestNotTLS: other bytes and clients that do not trust the server are counted;
// one who only connects is not.
func TestNotTLS(t *testing.T) {
	s := startSecure(t, nil)
	address := s.srv.Addr().String()
	dial := func() net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	_ = dial().Close()
	pair := s.clientCA.issue(t, "scheduler", nil)
	if _, _, err := s.post(t, client(t, s.clientCA, &pair, nil), validBody); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("a client that does not trust the server: %v", err)
	}
	eventually(t, "the distrust is counted", func() bool { return s.refusals(t, "protocol") == 1 })
	noise := dial()
	defer func() { _ = noise.Close() }()
	if _, err := noise.Write([]byte("SSH-2.0-x\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the noise is counted", func() bool { return s.refusals(t, "protocol") == 2 })
	line := s.logs.FilterMessage("client refused").All()[0].ContextMap()
	if hint, _ := line["hint"].(string); !strings.Contains(hint, "serving certificate") {
		t.Errorf("no hint in the line %v", line)
	}
}
