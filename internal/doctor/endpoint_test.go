package doctor

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prebind/prebind/internal/registration"
)

const refusal = `{"Error":"InvalidRequest: the body is null, a JSON object is needed"}`

// likePrebind answers an empty bind call as prebind does.
func likePrebind(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/bind" || string(body) != "null" {
			t.Errorf("%s %s with %q: %v", r.Method, r.URL.Path, body, err)
		}
		_, _ = w.Write([]byte(refusal))
	})
}

// serve serves TLS if config is not nil, and returns the server's URL.
func serve(t *testing.T, handler http.Handler, config *tls.Config) *url.URL {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	if config == nil {
		server.Start()
	} else {
		server.TLS = config
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func pemOf(t *testing.T, pair *tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (e *exam) endpoint(t *testing.T, target Endpoint) outcome {
	t.Helper()
	e.Endpoint = target
	e.StepTimeout = 5 * time.Second
	e.Now = now
	return e.checkEndpoint(t.Context())
}

func TestEndpoint(t *testing.T) {
	long := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = now.AddDate(-1, 0, 0), now.AddDate(100, 0, 0)
	}
	own, other := newCA(t, "own", long), newCA(t, "other", long)
	_, serving := own.issue(t, long)
	plain := serve(t, likePrebind(t), nil)
	secure := serve(t, likePrebind(t), &tls.Config{Certificates: []tls.Certificate{*serving}, MinVersion: tls.VersionTLS12})
	mutual := serve(t, likePrebind(t), &tls.Config{
		Certificates: []tls.Certificate{*serving}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.Pool(),
	})
	older := serve(t, likePrebind(t), &tls.Config{
		Certificates: []tls.Certificate{*serving}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.Pool(),
	})
	as := func(u *url.URL, scheme string) *url.URL {
		changed := *u
		changed.Scheme = scheme
		return &changed
	}
	pair := func(a *ca, change ...func(*x509.Certificate)) func(*Endpoint) {
		return func(e *Endpoint) {
			_, leaf := a.issue(t, append([]func(*x509.Certificate){long}, change...)...)
			e.Cert, e.Key = pemOf(t, leaf)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := &url.URL{Scheme: "http", Host: free.Addr().String()}
	_ = free.Close()

	tests := map[string]struct {
		url    *url.URL
		ca     *ca
		change []func(*Endpoint)
		want   []string
	}{
		"plain HTTP":                   {url: plain},
		"plain HTTP with a CA":         {url: plain, ca: own, want: []string{"advice:for a URL that begins with http://"}},
		"plain HTTP, the whole prefix": {url: plain.JoinPath("v1")},
		"nobody listens":               {url: closed, want: []string{"fault:refuses the connection"}},
		"no such name":                 {url: &url.URL{Scheme: "https", Host: "prebind.kube-system.svc.invalid:8443"}, want: []string{"fault:cannot be resolved"}},
		"TLS without client":           {url: secure, ca: own, want: []string{"advice:does not ask for a client certificate"}},
		"TLS on plain HTTP":            {url: as(plain, "https"), ca: own, want: []string{"fault:speaks plain HTTP, not TLS"}},
		"plain HTTP on TLS":            {url: as(secure, "http"), want: []string{"fault:speaks TLS, but the URL begins with http://"}},
		"mutual":                       {url: mutual, ca: own, change: []func(*Endpoint){pair(own)}},
		"mutual, TLS 1.2":              {url: older, ca: own, change: []func(*Endpoint){pair(own)}},
		"mutual, server name":          {url: mutual, ca: own, change: []func(*Endpoint){pair(own), func(e *Endpoint) { e.ServerName = "prebind.kube-system.svc" }}},
		"mutual, none shown":           {url: mutual, ca: own, want: []string{"fault:wants a client certificate, and none was shown"}},
		"mutual, none shown, TLS 1.2":  {url: older, ca: own, want: []string{"fault:wants a client certificate, and none was shown"}},
		"mutual, of another CA":        {url: mutual, ca: own, change: []func(*Endpoint){pair(other)}, want: []string{`fault:client certificate was signed by "CN=other"`}},
		"mutual, expired":              {url: mutual, ca: own, change: []func(*Endpoint){pair(own, until(-time.Hour))}, want: []string{"fault:the client certificate has expired"}},
		"wrong CA, wrong name": {
			url: mutual, ca: other, change: []func(*Endpoint){pair(own), func(e *Endpoint) { e.ServerName = "prebind.example" }},
			want: []string{"fault:not for prebind.example", `fault:signed by "CN=own"`},
		},
		"CA file without a certificate":  {url: mutual, change: []func(*Endpoint){pair(own), func(e *Endpoint) { e.CA = []byte("x") }}, want: []string{"fault:the CA file holds no certificate"}},
		"key of another certificate":     {url: mutual, ca: own, change: []func(*Endpoint){pair(own), func(e *Endpoint) { _, e.Key = pemOf(t, serving) }}, want: []string{"fault:cannot be used"}},
		"another program speaks no HTTP": {url: mute(t), want: []string{"fault:there is a connection, but no answer in time"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			target := Endpoint{URL: tc.url}
			if tc.ca != nil {
				target.CA = tc.ca.CertPEM()
			}
			for _, change := range tc.change {
				change(&target)
			}
			out := (&exam{}).endpoint(t, target)
			wantFindings(t, out.findings, tc.want...)
			if len(tc.want) == 0 && !strings.HasSuffix(out.summary, "refuses an empty call as it should") {
				t.Errorf("summary %q", out.summary)
			}
		})
	}
}

// mute listens and never answers.
func mute(t *testing.T) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

func TestEndpointTakesWhatTheFileNames(t *testing.T) {
	long := func(c *x509.Certificate) { c.NotAfter = now.AddDate(100, 0, 0) }
	own := newCA(t, "own", long)
	_, serving := own.issue(t, long)
	_, client := own.issue(t, long)
	target := serve(t, likePrebind(t), &tls.Config{
		Certificates: []tls.Certificate{*serving}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.Pool(),
	})
	cert, key := pemOf(t, client)
	found := &registration.Found{URL: target.String() + "/v1", HTTPS: true, ServerName: "prebind.kube-system.svc", CAData: own.CertPEM(), CertData: cert, KeyData: key}
	wantFindings(t, (&exam{registered: found}).endpoint(t, Endpoint{URL: target}).findings)

	elsewhere := *found
	elsewhere.URL = "https://10.0.0.1:8443/v1"
	if out := (&exam{registered: &elsewhere}).endpoint(t, Endpoint{URL: target}); len(out.findings) == 0 {
		t.Error("the certificates of another endpoint were used")
	}
	if out := (&exam{registered: found}).endpoint(t, Endpoint{}); !out.skipped || !strings.Contains(out.summary, "--endpoint="+found.URL) {
		t.Errorf("without --endpoint: %+v", out)
	}
}
