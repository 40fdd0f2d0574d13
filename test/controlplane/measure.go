package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// What benchmarks need: other request rates, and a look into the programs.

// StartControllerManager runs kube-controller-manager with these arguments added
// in place of Options.ControllerManagerArgs, and returns when its controllers
// work. The one that was running is killed first.
func (cp *ControlPlane) StartControllerManager(ctx context.Context, args ...string) error {
	if err := cp.controllerManager.Kill(); err != nil {
		return err
	}
	cp.opts.ControllerManagerArgs = args
	return cp.step(ctx, "kube-controller-manager", cp.startControllerManager)
}

// PID returns the process id of the program's last run, 0 before the first.
func (p *Process) PID() int {
	r := p.current()
	if r == nil {
		return 0
	}
	return r.process.Pid
}

// SchedulerMetrics returns what kube-scheduler answers to GET /metrics.
func (cp *ControlPlane) SchedulerMetrics(ctx context.Context) ([]byte, error) {
	scheduler := cp.Scheduler()
	if scheduler == nil || scheduler.url == "" {
		return nil, errors.New("reading kube-scheduler's metrics: it has not been started")
	}
	roots := x509.NewCertPool()
	roots.AddCert(scheduler.ca.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	return fetch(ctx, &http.Client{Transport: transport}, scheduler.url+"/metrics")
}

// Metrics returns what prebind answers to GET /metrics.
func (p *Prebind) Metrics(ctx context.Context) ([]byte, error) {
	return fetch(ctx, http.DefaultClient, p.opsURL+"/metrics")
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, response.Status)
	}
	return body, nil
}
