package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/server"
)

// Environment of the process that calls: where, how often, and with which
// certificate.
const (
	callerAddress = "PREBIND_CALLER_ADDRESS"
	callerCalls   = "PREBIND_CALLER_CALLS"
	callerCert    = "PREBIND_CALLER_CERT"
	callerKey     = "PREBIND_CALLER_KEY"
)

// callFromOutside starts a process that calls as kube-scheduler does, until the
// benchmark ends.
func callFromOutside(b *testing.B, files *server.TLS, address string, calls int) {
	ctx, kill := context.WithCancel(b.Context())
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCaller$")
	command.Env = append(os.Environ(), callerAddress+"="+address, callerCalls+"="+strconv.Itoa(calls),
		callerCert+"="+files.CertFile, callerKey+"="+files.KeyFile)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		kill()
		_ = command.Wait() // it was killed
	})
}

// TestCaller is that process.
func TestCaller(t *testing.T) {
	address := os.Getenv(callerAddress)
	if address == "" {
		t.Skip("the callers of BenchmarkWaitingCall/https")
	}
	calls, err := strconv.Atoi(os.Getenv(callerCalls))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(os.Getenv(callerCert), os.Getenv(callerKey))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	// As kube-scheduler makes it for an extender with tlsConfig.
	client := &http.Client{Transport: utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
	})}
	// kube-scheduler hands out its pods one after the other. All in one moment,
	// before there is a connection, would be a handshake for each of them.
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for n := range calls {
		<-pace.C
		go func() {
			name := podName(n)
			body, _ := json.Marshal(extenderv1.ExtenderBindingArgs{
				PodName: name, PodNamespace: testkit.Namespace, PodUID: testkit.UID(name), Node: "node-7",
			})
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/v1/bind", bytes.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				_, _ = fmt.Fprintf(os.Stderr, "calling for %s: %v\n", name, err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body) // the answer on the stop
			_ = resp.Body.Close()
		}()
	}
	<-t.Context().Done() // never: the process is killed
}

// selfSigned writes a certificate that is its own authority, good for both ends.
func selfSigned(b testing.TB) *server.TLS {
	b.Helper()
	made := testkit.NewCertificate(b, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, nil)
	dir := b.TempDir()
	files := &server.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	files.ClientCAFile = files.CertFile
	for file, text := range map[string][]byte{files.CertFile: made.CertPEM(), files.KeyFile: made.KeyPEM(b)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return files
}
