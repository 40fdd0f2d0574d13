package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ServerTLS is server.tls of prebind's configuration.
type ServerTLS struct {
	CertFile           string   `json:"certFile"`
	KeyFile            string   `json:"keyFile"`
	ClientCAFile       string   `json:"clientCAFile,omitempty"`
	AllowedClientNames []string `json:"allowedClientNames,omitempty"`
}

// ExtenderTLS is tlsConfig of a scheduler's extender entry.
type ExtenderTLS struct {
	CAFile     string `json:"caFile,omitempty"`
	CertFile   string `json:"certFile,omitempty"`
	KeyFile    string `json:"keyFile,omitempty"`
	ServerName string `json:"serverName,omitempty"`
}

// Authority is a certificate authority of a test's own.
type Authority struct{ own *authority }

// NewAuthority makes one; its certificate is written to dir.
func NewAuthority(dir, name string) (*Authority, error) {
	own, err := newAuthority(dir, name)
	if err != nil {
		return nil, err
	}
	return &Authority{own}, nil
}

// PEM returns the authority's certificate. Several appended make a bundle.
func (a *Authority) PEM() []byte { return a.own.encoded() }

// KeyPair is a certificate with its private key, PEM encoded.
type KeyPair struct{ Cert, Key []byte }

// Issue signs a certificate with this common name, which is good for clients
// and, on loopback, for servers.
func (a *Authority) Issue(name string) (KeyPair, error) {
	pair, err := a.own.issue(name)
	return KeyPair{Cert: pair.cert, Key: pair.key}, err
}

// Secret is a folder such as kubelet makes of a TLS Secret's volume: tls.crt,
// tls.key and ca.crt are links through ..data, which is replaced as a whole.
type Secret struct{ dir string }

// NewSecret makes the folder in dir.
func NewSecret(dir string, pair KeyPair, ca []byte) (*Secret, error) {
	s := &Secret{dir}
	if err := s.Update(pair, ca); err != nil {
		return nil, err
	}
	for _, file := range []string{s.Cert(), s.Key(), s.CA()} {
		if err := os.Symlink(filepath.Join("..data", filepath.Base(file)), file); err != nil {
			return nil, fmt.Errorf("making a Secret's folder: %w", err)
		}
	}
	return s, nil
}

// Cert is the path of tls.crt.
func (s *Secret) Cert() string { return filepath.Join(s.dir, "tls.crt") }

// Key is the path of tls.key.
func (s *Secret) Key() string { return filepath.Join(s.dir, "tls.key") }

// CA is the path of ca.crt.
func (s *Secret) CA() string { return filepath.Join(s.dir, "ca.crt") }

// Update replaces the content the way kubelet does: a new folder, ..data turned
// to it by rename, the old folder removed.
func (s *Secret) Update(pair KeyPair, ca []byte) error {
	next, err := os.MkdirTemp(s.dir, "..")
	if err != nil {
		return fmt.Errorf("updating a Secret's folder: %w", err)
	}
	for file, text := range map[string][]byte{s.Cert(): pair.Cert, s.Key(): pair.Key, s.CA(): ca} {
		if err := os.WriteFile(filepath.Join(next, filepath.Base(file)), text, 0o600); err != nil {
			return fmt.Errorf("updating a Secret's folder: %w", err)
		}
	}
	data := filepath.Join(s.dir, "..data")
	old, _ := os.Readlink(data) // none the first time
	link := filepath.Join(s.dir, fmt.Sprintf("..link-%d", time.Now().UnixNano()))
	if err := os.Symlink(filepath.Base(next), link); err != nil {
		return fmt.Errorf("updating a Secret's folder: %w", err)
	}
	if err := os.Rename(link, data); err != nil {
		return fmt.Errorf("updating a Secret's folder: %w", err)
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(s.dir, old))
}
