package registration

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/testkit"
)

// now is when the tests' certificates are looked at.
func now() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// pair is a certificate and its key, as PEM.
type pair struct{ cert, key string }

// certificate makes a self-signed one that is valid in a span around now.
func certificate(t *testing.T, from, to time.Duration, usages ...x509.ExtKeyUsage) pair {
	t.Helper()
	made := testkit.NewCertificate(t, &x509.Certificate{
		Subject:   pkix.Name{CommonName: "test"},
		NotBefore: now().Add(from), NotAfter: now().Add(to), ExtKeyUsage: usages,
	}, nil)
	return pair{cert: string(made.CertPEM()), key: string(made.KeyPEM(t))}
}

func TestCheckCertificates(t *testing.T) {
	const day = 24 * time.Hour
	ca := certificate(t, -day, 3650*day)
	client := certificate(t, -day, 365*day, x509.ExtKeyUsageClientAuth)
	other := certificate(t, -day, 365*day)
	expired := certificate(t, -20*day, -day)
	soon := certificate(t, -day, 10*day)
	early := certificate(t, day, 365*day)
	server := certificate(t, -day, 365*day, x509.ExtKeyUsageServerAuth)
	type files map[string]string
	tests := map[string]struct {
		files files
		edits []string
		want  []string
	}{
		"right":                     {files: files{"ca.crt": ca.cert, "tls.crt": client.cert, "tls.key": client.key}},
		"an old CA beside the new":  {files: files{"ca.crt": expired.cert + ca.cert, "tls.crt": client.cert, "tls.key": client.key}},
		"any usage":                 {files: files{"ca.crt": ca.cert, "tls.crt": other.cert, "tls.key": other.key}},
		"CA missing":                {files: files{"tls.crt": client.cert, "tls.key": client.key}, want: []string{"fault file-unreadable extenders[0].tlsConfig.caFile"}},
		"certificate missing":       {files: files{"ca.crt": ca.cert, "tls.key": client.key}, want: []string{"fault file-unreadable extenders[0].tlsConfig.certFile"}},
		"key missing":               {files: files{"ca.crt": ca.cert, "tls.crt": client.cert}, want: []string{"fault file-unreadable extenders[0].tlsConfig.keyFile"}},
		"CA is a key":               {files: files{"ca.crt": ca.key, "tls.crt": client.cert, "tls.key": client.key}, want: []string{"fault ca-unreadable extenders[0].tlsConfig.caFile"}},
		"CA expired":                {files: files{"ca.crt": expired.cert, "tls.crt": client.cert, "tls.key": client.key}, want: []string{"fault ca-expired extenders[0].tlsConfig.caFile"}},
		"CA expires soon":           {files: files{"ca.crt": soon.cert, "tls.crt": client.cert, "tls.key": client.key}, want: []string{"advice ca-expiring extenders[0].tlsConfig.caFile"}},
		"CA not yet valid":          {files: files{"ca.crt": early.cert, "tls.crt": client.cert, "tls.key": client.key}, want: []string{"fault ca-not-yet-valid extenders[0].tlsConfig.caFile"}},
		"certificate expired":       {files: files{"ca.crt": ca.cert, "tls.crt": expired.cert, "tls.key": expired.key}, want: []string{"fault client-certificate-expired extenders[0].tlsConfig.certFile"}},
		"certificate expires soon":  {files: files{"ca.crt": ca.cert, "tls.crt": soon.cert, "tls.key": soon.key}, want: []string{"advice client-certificate-expiring extenders[0].tlsConfig.certFile"}},
		"a server's certificate":    {files: files{"ca.crt": ca.cert, "tls.crt": server.cert, "tls.key": server.key}, want: []string{"fault client-certificate-usage extenders[0].tlsConfig.certFile"}},
		"another certificate's key": {files: files{"ca.crt": ca.cert, "tls.crt": client.cert, "tls.key": other.key}, want: []string{"fault key-mismatch extenders[0].tlsConfig.keyFile"}},
		"certificate is no PEM":     {files: files{"ca.crt": ca.cert, "tls.crt": "text", "tls.key": client.key}, want: []string{"fault client-certificate-unreadable extenders[0].tlsConfig.certFile"}},
		"data goes before files": {
			files: files{"tls.crt": client.cert, "tls.key": client.key},
			edits: []string{"caFile: ca.crt", "caFile: ca.crt, caData: " + base64.StdEncoding.EncodeToString([]byte(expired.cert))},
			want:  []string{"fault ca-expired extenders[0].tlsConfig.caData"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := edit(t, base, tc.edits...)
			problems, found, err := Check([]byte(text), CheckOptions{Now: now(), ReadFile: func(path string) ([]byte, error) {
				if data, ok := tc.files[path]; ok {
					return []byte(data), nil
				}
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, summary(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s\n%+v", diff, problems)
			}
			if got, want := string(found.CertData), tc.files["tls.crt"]; got != want {
				t.Errorf("found certificate %q, want %q", got, want)
			}
			if got, want := string(found.KeyData), tc.files["tls.key"]; got != want {
				t.Errorf("found key %q, want %q", got, want)
			}
		})
	}
}
