package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs certificates into files of its folder.
type authority struct {
	t      *testing.T
	dir    string
	caFile string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued int // numbers the files
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), key: newKey(t)}
	var err error
	if a.cert, err = cert.NewSelfSignedCACert(cert.Config{CommonName: name}, a.key); err != nil {
		t.Fatal(err)
	}
	a.caFile = a.write("ca.crt", encoded(t, a.cert))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encoded(t *testing.T, certificate *x509.Certificate) []byte {
	t.Helper()
	text, err := cert.EncodeCertificates(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (a *authority) write(name string, text []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue signs a certificate, good for clients and for servers on loopback, that
// ends at the time given, and returns its files.
func (a *authority) issue(name string, end time.Time) (certFile, keyFile string) {
	a.t.Helper()
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: end.AddDate(-1, 0, 0), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.issued++
	file := fmt.Sprintf("%d-%s", a.issued, name)
	return a.write(file+".crt", encoded(a.t, signed)), a.write(file+".key", text)
}
