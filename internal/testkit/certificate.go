package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
)

// Certificate is a certificate with its key.
type Certificate struct {
	X509 *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewCertificate makes a key, and a certificate for it from the template, which
// gets a serial number. by signs it; nil: it signs itself.
func NewCertificate(t testing.TB, template *x509.Certificate, by *Certificate) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.X509, by.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Certificate{cert, key}
}

// CertPEM is the certificate alone, as in tls.crt.
func (c *Certificate) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.X509.Raw})
}

// KeyPEM is the key, as in tls.key.
func (c *Certificate) KeyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// TLS is the certificate as a server or a client presents it.
func (c *Certificate) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{c.X509.Raw}, PrivateKey: c.Key}
}

// Pool trusts the certificate alone.
func (c *Certificate) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.X509)
	return pool
}
