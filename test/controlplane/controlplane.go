package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/prebind/prebind/test/programs"
)

// ControlPlane is a running control plane, embedded or existing.
type ControlPlane struct {
	opts     Options
	dir      string       // everything it writes
	programs programs.Set // where its programs are
	built    map[programs.Program]bool
	existing bool

	clusterCA    *authority // of the API server and its users
	files        files
	apiServerURL string
	admin        *rest.Config
	kubeconfig   string // the administrator's
	client       kubernetes.Interface
	dynamic      dynamic.Interface
	mapper       *restmapper.DeferredDiscoveryRESTMapper

	etcd, apiServer, controllerManager *Process

	mu          sync.Mutex
	scheduler   *Process
	prebinds    map[string]*Prebind // the newest of each name
	prebindLogs int                 // numbers their log files
}

// Start starts a control plane without a scheduler, or takes the existing one
// that PREBIND_TEST_KUBECONFIG names. It returns when the API server and the
// controllers work. The programs are built first if they are missing.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts.setDefaults()
	dir, err := os.MkdirTemp("", "prebind-controlplane-")
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	cp := &ControlPlane{opts: opts, dir: dir, built: map[programs.Program]bool{}, prebinds: map[string]*Prebind{}}
	if path := os.Getenv(KubeconfigVariable); path != "" && !opts.Embedded {
		err = cp.useExisting(path)
	} else {
		err = cp.startEmbedded(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) startEmbedded(ctx context.Context) error {
	var err error
	cp.programs, err = programs.Ensure(ctx, programs.Config{Out: cp.opts.Out}, programs.ControlPlane()...)
	if err != nil {
		return err
	}
	for _, p := range programs.ControlPlane() {
		cp.built[p] = true
	}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"certificates and keys", func(context.Context) error { return cp.writeFiles() }},
		{"etcd", cp.startEtcd},
		{"kube-apiserver", cp.startAPIServer},
		{"kube-controller-manager", cp.startControllerManager},
	}
	for _, step := range steps {
		if err := cp.step(ctx, step.name, step.do); err != nil {
			return err
		}
	}
	return nil
}

// step does one thing and tells the caller's Step how long it took.
func (cp *ControlPlane) step(ctx context.Context, name string, do func(context.Context) error) error {
	start := time.Now()
	if err := do(ctx); err != nil {
		return err
	}
	cp.opts.Step(name, time.Since(start))
	return nil
}

// Stop ends every process that was started and removes what they wrote. It
// kills what does not end in time and tells so. It may be called twice.
func (cp *ControlPlane) Stop() error {
	cp.mu.Lock()
	prebinds := slices.Collect(maps.Values(cp.prebinds))
	others := []*Process{cp.scheduler, cp.controllerManager, cp.apiServer, cp.etcd}
	cp.mu.Unlock()
	var errs []error
	for _, p := range prebinds {
		errs = append(errs, p.Stop(context.Background())) // bounded; a bad goodbye is a fault worth seeing
	}
	for _, p := range others {
		if p != nil && !p.existing {
			errs = append(errs, p.Kill()) // their data go anyway
		}
	}
	if err := os.RemoveAll(cp.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the control plane's folder: %w", err))
	}
	return errors.Join(errs...)
}

// Dir returns the folder that holds all logs, data and generated files.
func (cp *ControlPlane) Dir() string { return cp.dir }

// Existing tells whether this is a cluster that was there before.
func (cp *ControlPlane) Existing() bool { return cp.existing }

// Client returns an administrator's client without a limit on its rate.
func (cp *ControlPlane) Client() kubernetes.Interface { return cp.client }

// Dynamic returns an administrator's dynamic client.
func (cp *ControlPlane) Dynamic() dynamic.Interface { return cp.dynamic }

// Etcd returns the etcd process.
func (cp *ControlPlane) Etcd() *Process { return cp.etcd }

// APIServer returns the kube-apiserver process.
func (cp *ControlPlane) APIServer() *Process { return cp.apiServer }

// ControllerManager returns the kube-controller-manager process.
func (cp *ControlPlane) ControllerManager() *Process { return cp.controllerManager }

// Scheduler returns the kube-scheduler process, nil before StartScheduler.
func (cp *ControlPlane) Scheduler() *Process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.scheduler
}

// process describes a program of the control plane.
func (cp *ControlPlane) process(name string, program programs.Program, args []string, ready func(context.Context) error) *Process {
	return &Process{
		name:    name,
		path:    cp.programs.Path(program),
		args:    args,
		logFile: filepath.Join(cp.dir, name+".log"),
		ready:   ready,
		timeout: cp.opts.ReadyTimeout,
	}
}
