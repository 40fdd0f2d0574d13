package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prebind/prebind/test/programs"
)

// StartScheduler runs kube-scheduler as opts say and returns when it serves.
// The scheduler that was running is ended first.
func (cp *ControlPlane) StartScheduler(ctx context.Context, opts SchedulerOptions) error {
	kubeconfig := cp.kubeconfig
	if !cp.existing {
		var err error
		if kubeconfig, err = cp.writeUserKubeconfig("kube-scheduler", "system:kube-scheduler"); err != nil {
			return err
		}
	}
	opts.kubeconfig, opts.schedulerName = kubeconfig, cp.SchedulerName()
	config, err := opts.config()
	if err != nil {
		return err
	}
	return cp.StartSchedulerWithConfig(ctx, config)
}

// StartSchedulerWithConfig runs kube-scheduler with a KubeSchedulerConfiguration
// of the caller's, which must name the kubeconfig: [ControlPlane.Kubeconfig]
// will do.
func (cp *ControlPlane) StartSchedulerWithConfig(ctx context.Context, config []byte) error {
	if err := cp.StopScheduler(ctx); err != nil {
		return err
	}
	if err := cp.needProgram(ctx, programs.Scheduler); err != nil {
		return err
	}
	file := filepath.Join(cp.dir, "kube-scheduler.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return fmt.Errorf("starting kube-scheduler: %w", err)
	}
	return cp.step(ctx, "kube-scheduler", func(ctx context.Context) error {
		return withFreePorts(ctx, 1, func(ports []int) error { return cp.runScheduler(ctx, file, ports[0]) })
	})
}

func (cp *ControlPlane) runScheduler(ctx context.Context, config string, port int) error {
	ca, certFile, keyFile, err := cp.servingFiles()
	if err != nil {
		return err
	}
	ready, err := httpsProbe("https://"+address(port)+"/readyz", ca, nil)
	if err != nil {
		return err
	}
	scheduler := cp.process("kube-scheduler", programs.Scheduler, []string{
		"--config=" + config,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + certFile,
		"--tls-private-key-file=" + keyFile,
		// The default three, and /metrics for SchedulerMetrics.
		"--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
	}, ready)
	scheduler.url, scheduler.ca = "https://"+address(port), ca
	cp.mu.Lock()
	cp.scheduler = scheduler
	cp.mu.Unlock()
	return scheduler.Start(ctx)
}

// servingFiles returns a certificate for a server on loopback. On an existing
// cluster it comes from an authority made for it.
func (cp *ControlPlane) servingFiles() (ca *authority, certFile, keyFile string, err error) {
	if !cp.existing {
		return cp.clusterCA, cp.files.servingCert, cp.files.servingKey, nil
	}
	if ca, err = newAuthority(cp.dir, "scheduler-ca"); err != nil {
		return nil, "", "", err
	}
	certFile, keyFile, err = ca.issueFiles("serving", "localhost")
	return ca, certFile, keyFile, err
}

// StopScheduler ends the scheduler that StartScheduler runs, if any.
func (cp *ControlPlane) StopScheduler(ctx context.Context) error {
	if scheduler := cp.Scheduler(); scheduler != nil {
		return scheduler.Stop(ctx)
	}
	return nil
}

// needProgram builds a program that Start has not built.
func (cp *ControlPlane) needProgram(ctx context.Context, p programs.Program) error {
	if cp.built[p] {
		return nil
	}
	set, err := programs.Ensure(ctx, programs.Config{Out: cp.opts.Out}, p)
	if err != nil {
		return err
	}
	cp.programs, cp.built[p] = set, true
	return nil
}
