package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/testkit"
)

// ca signs certificates for tests.
type ca struct{ *testkit.Certificate }

func newCA(t *testing.T, name string, change ...func(*x509.Certificate)) *ca {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(10, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	for _, c := range change {
		c(template)
	}
	return &ca{testkit.NewCertificate(t, template, nil)}
}

// issue signs a certificate for servers named localhost and for clients.
func (a *ca) issue(t *testing.T, change ...func(*x509.Certificate)) (*x509.Certificate, *tls.Certificate) {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "leaf"}, DNSNames: []string{"localhost", "prebind.kube-system.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(1, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	made := testkit.NewCertificate(t, template, a.Certificate)
	return made.X509, made.TLS()
}

// until ends a certificate's life d after now.
func until(d time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = now.Add(d) }
}

func usage(usages ...x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}

func TestJudgeServer(t *testing.T) {
	good, other := newCA(t, "good"), newCA(t, "other")
	old := newCA(t, "old", until(-time.Hour))
	tests := map[string]struct {
		by     *ca
		change []func(*x509.Certificate)
		roots  *ca
		name   string
		want   []string
	}{
		"good":              {by: good, roots: good, name: "localhost"},
		"good, an address":  {by: good, roots: good, name: "127.0.0.1"},
		"expired":           {by: good, roots: good, name: "localhost", change: []func(*x509.Certificate){until(-time.Hour)}, want: []string{"fault:has expired on 2026-03-01 11:00 UTC"}},
		"expires soon":      {by: good, roots: good, name: "localhost", change: []func(*x509.Certificate){until(73 * time.Hour)}, want: []string{"advice:expires on|in 3 days"}},
		"not valid yet":     {by: good, roots: good, name: "localhost", change: []func(*x509.Certificate){func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }}, want: []string{"fault:not valid before"}},
		"another name":      {by: good, roots: good, name: "10.96.0.77", want: []string{"fault:not for 10.96.0.77|localhost, prebind.kube-system.svc, 127.0.0.1"}},
		"only a CN":         {by: good, roots: good, name: "leaf", change: []func(*x509.Certificate){func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }}, want: []string{"fault:no name at all"}},
		"another CA":        {by: other, roots: good, name: "localhost", want: []string{`fault:signed by "CN=other"`}},
		"no CA given":       {by: other, name: "localhost", want: []string{`fault:no CA was given|"CN=other"`}},
		"for clients":       {by: good, roots: good, name: "localhost", change: []func(*x509.Certificate){usage(x509.ExtKeyUsageClientAuth)}, want: []string{"fault:not for servers"}},
		"an expired CA":     {by: old, roots: old, name: "localhost", want: []string{`fault:authority "CN=old" has expired`}},
		"all of it at once": {by: other, roots: good, name: "x", change: []func(*x509.Certificate){until(-time.Hour)}, want: []string{"fault:has expired", "fault:not for x", "fault:signed by"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			leaf, _ := tc.by.issue(t, tc.change...)
			roots := x509.NewCertPool()
			if tc.roots != nil {
				roots = tc.roots.Pool()
			}
			findings := judgeServer([]*x509.Certificate{leaf}, roots, tc.name, now)
			if tc.roots == nil { // the machine's own authorities do not know ours either
				findings = judgeServer([]*x509.Certificate{leaf}, nil, tc.name, now)
			}
			wantFindings(t, findings, tc.want...)
		})
	}
}

func TestJudgeClient(t *testing.T) {
	good, other := newCA(t, "good"), newCA(t, "other")
	asks := &tls.CertificateRequestInfo{AcceptableCAs: [][]byte{good.X509.RawSubject}}
	tests := map[string]struct {
		by     *ca
		change []func(*x509.Certificate)
		asked  *tls.CertificateRequestInfo
		want   []string
	}{
		"good":                  {by: good, asked: asks},
		"any authority will do": {by: other, asked: &tls.CertificateRequestInfo{}},
		"none, and none wanted": {want: []string{"advice:does not ask for a client certificate"}},
		"not wanted":            {by: good, want: []string{"advice:is given, but prebind does not ask"}},
		"none":                  {asked: asks},
		"another CA":            {by: other, asked: asks, want: []string{`fault:signed by "CN=other"`}},
		"expired":               {by: good, asked: asks, change: []func(*x509.Certificate){until(-time.Hour)}, want: []string{"fault:the client certificate has expired"}},
		"expires soon":          {by: good, asked: asks, change: []func(*x509.Certificate){until(time.Hour)}, want: []string{"advice:the client certificate expires|in 1 hour"}},
		"for servers":           {by: good, asked: asks, change: []func(*x509.Certificate){usage(x509.ExtKeyUsageServerAuth)}, want: []string{"fault:not for clients"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var pair *tls.Certificate
			if tc.by != nil {
				_, pair = tc.by.issue(t, tc.change...)
			}
			wantFindings(t, judgeClient(tc.asked, pair, now), tc.want...)
		})
	}
}
