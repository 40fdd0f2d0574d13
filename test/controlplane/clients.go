package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

// connect makes the administrator's clients.
func (cp *ControlPlane) connect() error {
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("making clients: %w", err)
	}
	cp.client = client
	if cp.dynamic, err = dynamic.NewForConfig(cp.admin); err != nil {
		return fmt.Errorf("making clients: %w", err)
	}
	cp.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return nil
}

// httpsProbe returns a readiness probe: a GET that must be answered with 200 by
// a server that holds a certificate of ca. So the port's owner is ours.
func httpsProbe(url string, ca *authority, pair *keyPair) (func(context.Context) error, error) {
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if pair != nil {
		own, err := tls.X509KeyPair(pair.cert, pair.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return func(ctx context.Context) error { return get(ctx, client, url) }, nil
}

// get returns nil if url is answered with status 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", url, response.Status, failedChecks(string(body)))
	}
	return nil
}

// failedChecks keeps the lines of a health report that tell what is wrong.
func failedChecks(report string) string {
	var failed []string
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	if failed == nil {
		return strings.TrimSpace(report)
	}
	return strings.Join(failed, "; ")
}
