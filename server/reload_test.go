package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/server"
)

const expiryName = "prebind_tls_certificate_expiration_timestamp_seconds"

// served returns the certificate that a new connection gets.
func (s *secure) served(t testing.TB) *x509.Certificate {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// TestReload: certificate and key are followed, with and without an event that
// tells of the change; what cannot be used is not, and the log says so.
func TestReload(t *testing.T) {
	s := startSecure(t, nil)
	c := s.caller(t, "scheduler")
	swap := func(name string, keepOld bool) {
		t.Helper()
		end := time.Now().Add(time.Duration(len(name)) * 100 * time.Hour)
		s.files.swap(t, s.ca.issue(t, name, func(c *x509.Certificate) { c.NotAfter = end }), s.clientCA.pem, keepOld)
		eventually(t, name+" is served", func() bool { return s.served(t).Subject.CommonName == name })
		eventually(t, "the metric follows to "+name, func() bool { return sample(t, s.registry, expiryName, "") == float64(end.Unix()) })
		if result, _, err := s.post(t, c, validBody); err != nil || result != "" {
			t.Errorf("a call after the change to %s: %q, %v", name, result, err)
		}
	}
	swap("as kubelet does", false)
	swap("the old folder stays", true)
	before := s.served(t)

	mixed := s.ca.issue(t, "mixed", nil)
	mixed.key = s.ca.issue(t, "other", nil).key
	s.files.swap(t, mixed, []byte("no PEM"), true)
	for _, what := range []string{"serving certificate", "client CA"} {
		eventually(t, "the log tells of the broken "+what, func() bool {
			return s.logs.FilterMessage("the new "+what+" cannot be used, the old one is kept").Len() == 1
		})
	}
	if now := s.served(t); !now.Equal(before) {
		t.Errorf("served is %s, not the last good one", now.Subject)
	}
	if result, _, err := s.post(t, s.caller(t, "scheduler"), validBody); err != nil || result != "" {
		t.Errorf("a call while the files are broken: %q, %v", result, err)
	}
	swap("mended", false)
}

// TestRevocation: a change of the client CA holds for connections that are open,
// and costs no call that was right when it was sent.
func TestRevocation(t *testing.T) {
	waiting, release := make(chan struct{}), make(chan struct{})
	s := startSecure(t, func(_ context.Context, req binder.Request) error {
		if req.Name == "slow" {
			close(waiting)
			<-release
		}
		return nil
	})
	next := newCA(t, "next-client-ca")
	mine, hungUp := s.clientCA.issue(t, "scheduler", nil), make(chan struct{}, 9)
	busy, idle := s.caller(t, "scheduler"), client(t, s.ca, &mine, func(tr *http.Transport) { tr.DialContext = dialWatched(hungUp) })
	pair := s.ca.issue(t, "prebind", nil)
	closed := func(what string) {
		t.Helper()
		eventually(t, what+" is closed", func() bool { return len(hungUp) > 0 })
		<-hungUp
	}
	change := func(name string, ca []byte) {
		t.Helper()
		before := s.logs.FilterMessage("client CA loaded").Len()
		s.files.swap(t, pair, ca, false)
		eventually(t, name, func() bool { return s.logs.FilterMessage("client CA loaded").Len() > before })
	}
	s.call(t, busy, "first call", false, "")
	s.call(t, busy, "second call", true, "")
	s.call(t, idle, "first call of the other", false, "")
	change("both CAs", append(append([]byte{}, s.clientCA.pem...), next.pem...))
	s.call(t, busy, "still good, the last one on its connection", true, "")
	s.call(t, busy, "on a new connection", false, "")
	s.call(t, idle, "still good", true, "")
	s.call(t, idle, "on a new connection", false, "")
	closed("the first connection, after GOAWAY")

	slow := make(chan string, 1)
	go func() {
		result, _, err := s.post(t, busy, strings.Replace(validBody, "db-0", "slow", 1))
		if err != nil {
			result = err.Error()
		}
		slow <- result
	}()
	<-waiting
	change("the new CA alone", next.pem)
	const refused = `ClientRefused: the client certificate of "scheduler", issued by "client-ca", is not accepted by prebind: `
	closed("the connection at rest")
	s.call(t, idle, "its certificate was not replaced", false, refused)
	s.call(t, busy, "its connection may end what it does", true, "")
	s.call(t, busy, "and is not used again", false, refused)
	close(release)
	if got := <-slow; got != "" {
		t.Errorf("the call that ran: %q", got)
	}
	renewed := next.issue(t, "scheduler", nil)
	s.call(t, client(t, s.ca, &renewed, nil), "with a certificate of the new CA", false, "")
}

// dialWatched dials connections that tell when they are closed, which the client
// does as soon as the other end has hung up.
func dialWatched(hungUp chan<- struct{}) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &watchedConn{Conn: conn, hungUp: sync.OnceFunc(func() { hungUp <- struct{}{} })}, err
	}
}

type watchedConn struct {
	net.Conn
	hungUp func()
}

func (c *watchedConn) Close() error {
	defer c.hungUp()
	return c.Conn.Close()
}

// call makes a call and checks its result, "" or how it begins, and whether it
// went over a connection that was open.
func (s *secure) call(t *testing.T, c *http.Client, what string, reused bool, want string) {
	t.Helper()
	var conn httptrace.GotConnInfo
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/bind", strings.NewReader(validBody))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := read(t, resp).result(t)
	if conn.Reused != reused || !strings.HasPrefix(got, want) || want == "" && got != "" {
		t.Errorf("%s: %q on an open connection %t, want %q, %t", what, got, conn.Reused, want, reused)
	}
}

// TestCertificateReadiness: a certificate that no caller accepts makes prebind
// unready, and a good one ready again.
func TestCertificateReadiness(t *testing.T) {
	ca := newCA(t, "serving-ca")
	issue := func(from, to time.Duration) leaf {
		return ca.issue(t, "prebind", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
		})
	}
	f := newFiles(t, issue(-2*time.Hour, -time.Hour), ca.pem)
	i := start(t, server.Config{Binder: bindFunc(strictBinder), Registry: prometheus.NewRegistry(), TLS: f.config(false)})
	const soon = "the serving certificate expires soon, or has expired"
	ready := func(code int, part string) {
		t.Helper()
		var last answer
		eventually(t, "/readyz says "+part, func() bool {
			last = i.do(t, http.MethodGet, i.opsURL+"/readyz?verbose", "", nil)
			return last.code == code && strings.Contains(last.body, part)
		})
	}
	ready(503, "[-]tls-certificate failed: the serving certificate "+f.path("tls.crt")+" expired at ")
	if n := i.logs.FilterMessage(soon).Len(); n != 1 {
		t.Errorf("%d warnings of the expiry", n)
	}
	f.swap(t, issue(time.Hour, 100*24*time.Hour), ca.pem, false)
	ready(503, "[-]tls-certificate failed: the serving certificate "+f.path("tls.crt")+" is not valid before ")
	f.swap(t, issue(-time.Hour, 31*24*time.Hour), ca.pem, false)
	ready(200, "[+]tls-certificate ok\n")
	if n := i.logs.FilterMessage(soon).Len(); n != 1 {
		t.Errorf("%d warnings of the expiry, the last certificate has 31 days", n)
	}
	f.swap(t, issue(-time.Hour, 29*24*time.Hour), ca.pem, false)
	eventually(t, "a warning at 29 days", func() bool { return i.logs.FilterMessage(soon).Len() == 2 })
	ready(200, "[+]tls-certificate ok\n")
}

// TestNewTLSMistakes: what is wrong at start is named with its key and file.
func TestNewTLSMistakes(t *testing.T) {
	ca := newCA(t, "ca")
	good := newFiles(t, ca.issue(t, "prebind", nil), []byte("no PEM"))
	for name, tc := range map[string]struct {
		tls  server.TLS
		want string
	}{
		"no files":       {server.TLS{}, "server.Config.TLS lacks CertFile or KeyFile"},
		"missing files":  {server.TLS{CertFile: "/none.crt", KeyFile: "/none.key"}, "loading server.tls.certFile /none.crt and server.tls.keyFile /none.key: open /none.crt: "},
		"a CA that none": {*good.config(true), "loading server.tls.clientCAFile " + good.path("ca.crt") + ": "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := server.New(server.Config{Address: "127.0.0.1:0", OpsAddress: "127.0.0.1:0", Binder: bindFunc(strictBinder), Nodes: anyNode{}, TLS: &tc.tls})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("New() error = %v, want %q", err, tc.want)
			}
		})
	}
	// An address in use, with good files: nothing is left behind (goleak).
	taken := start(t, server.Config{Binder: bindFunc(strictBinder)})
	if _, err := server.New(server.Config{Address: taken.srv.Addr().String(), OpsAddress: "127.0.0.1:0", Binder: bindFunc(strictBinder), TLS: good.config(false)}); err == nil {
		t.Error("New() on an address in use: no error")
	}
}
