package registration

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/registration"
	"github.com/prebind/prebind/internal/testkit"
)

// files are the paths of a CA and a client certificate.
type files struct{ ca, cert, key string }

// options use the files, and HTTPS.
func (f files) options(names ...string) registration.Options {
	return registration.Options{
		URL: "https://10.96.0.77:8443", CAFile: f.ca, CertFile: f.cert, KeyFile: f.key, ServerName: "prebind.kube-system.svc",
		KubeconfigPath: "/etc/kubernetes/scheduler.conf", SchedulerNames: names,
	}
}

// certificates writes one certificate that is its own CA.
func certificates(t *testing.T) files {
	t.Helper()
	made := testkit.NewCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "prebind-scheduler-client"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}, nil)
	dir := t.TempDir()
	f := files{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	for path, text := range map[string][]byte{f.ca: made.CertPEM(), f.cert: made.CertPEM(), f.key: made.KeyPEM(t)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func noFile(path string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}
