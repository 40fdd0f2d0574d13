package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/server"
)

// testCA is a certificate authority.
type testCA struct {
	*testkit.Certificate
	pem []byte
}

// newCA makes an authority.
func newCA(t testing.TB, name string) *testCA {
	t.Helper()
	made := testkit.NewCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
	}, nil)
	return &testCA{made, made.CertPEM()}
}

// leaf is a certificate with its key, PEM.
type leaf struct{ cert, key []byte }

// issue makes a certificate for clients and servers on loopback; change may
// alter what is signed.
func (ca *testCA) issue(t testing.TB, name string, change func(*x509.Certificate)) leaf {
	t.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	made := testkit.NewCertificate(t, template, ca.Certificate)
	return leaf{made.CertPEM(), made.KeyPEM(t)}
}

// files are what a Secret's volume shows: each file a link through ..data, which
// is replaced as a whole.
type files struct {
	dir     string
	version int
}

func newFiles(t testing.TB, pair leaf, ca []byte) *files {
	t.Helper()
	f := &files{dir: t.TempDir()}
	f.swap(t, pair, ca, false)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), f.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

// swap replaces all files at once, as kubelet does. kubelet removes the old
// folder afterwards; keepOld does not, so that no event tells of the change.
func (f *files) swap(t testing.TB, pair leaf, ca []byte, keepOld bool) {
	t.Helper()
	f.version++
	next := "..v" + time.Now().Format("150405.000000000")
	if err := os.Mkdir(f.path(next), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(f.dir, next, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, _ := os.Readlink(f.path("..data"))
	if err := os.Symlink(next, f.path("..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path("..data_tmp"), f.path("..data")); err != nil {
		t.Fatal(err)
	}
	if old != "" && !keepOld {
		if err := os.RemoveAll(f.path(old)); err != nil {
			t.Fatal(err)
		}
	}
}

// config names the files; mTLS says whether clients need a certificate.
func (f *files) config(mTLS bool, allowed ...string) *server.TLS {
	c := &server.TLS{
		CertFile: f.path("tls.crt"), KeyFile: f.path("tls.key"), AllowedClientNames: allowed,
		RecheckInterval: 100 * time.Millisecond,
	}
	if mTLS {
		c.ClientCAFile = f.path("ca.crt")
	}
	return c
}

// client makes a client with connections of its own that trusts ca; a nil pair
// is no certificate. It speaks HTTP/2 unless change says otherwise.
func client(t testing.TB, ca *testCA, pair *leaf, change func(*http.Transport)) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, ForceAttemptHTTP2: true}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.cert, pair.key)
		if err != nil {
			t.Fatal(err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{cert}
		// Sent also to a server that did not name its authority.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	if change != nil {
		change(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
