package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is longer than any test or demo.
const certificateLife = 30 * 24 * time.Hour

// authority is a certificate authority whose files are in one folder.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// keyPair is a certificate with its private key, PEM encoded.
type keyPair struct{ cert, key []byte }

// newAuthority makes an authority and writes its certificate to dir.
func newAuthority(dir, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	a := &authority{dir: dir, name: name, cert: ca, key: key}
	if err := os.WriteFile(a.file(), a.encoded(), 0o600); err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	return a, nil
}

func (a *authority) file() string { return filepath.Join(a.dir, a.name+".crt") }

func (a *authority) encoded() []byte {
	text, _ := cert.EncodeCertificates(a.cert) // fails for no certificate that has been parsed
	return text
}

// issue signs a certificate for user in groups that is good for clients and,
// on loopback, for servers.
func (a *authority) issue(user string, groups ...string) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	return encode(signed, key)
}

func encode(signed *x509.Certificate, key crypto.Signer) (keyPair, error) {
	certPEM, err := cert.EncodeCertificates(signed)
	if err != nil {
		return keyPair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: certPEM, key: keyPEM}, nil
}

// issueFiles writes an issued certificate and its key to the authority's folder.
func (a *authority) issueFiles(file, user string) (certFile, keyFile string, err error) {
	pair, err := a.issue(user)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(a.dir, file+".crt"), filepath.Join(a.dir, file+".key")
	if err := os.WriteFile(certFile, pair.cert, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, os.WriteFile(keyFile, pair.key, 0o600)
}

// writeTokenKeys makes the keys that sign and check service account tokens.
func writeTokenKeys(dir string) (private, public string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("making token keys: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", "", fmt.Errorf("making token keys: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("making token keys: %w", err)
	}
	private, public = filepath.Join(dir, "tokens.key"), filepath.Join(dir, "tokens.pub")
	if err := os.WriteFile(private, keyPEM, 0o600); err != nil {
		return "", "", fmt.Errorf("making token keys: %w", err)
	}
	if err := os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), 0o600); err != nil {
		return "", "", fmt.Errorf("making token keys: %w", err)
	}
	return private, public, nil
}
