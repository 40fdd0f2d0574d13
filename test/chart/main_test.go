package chart_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
	"github.com/prebind/prebind/test/provisioner"
)

// patience is how long a test waits for what must come. It is never the
// measure of anything.
const patience = 60 * time.Second

// probeInterval is the pause between two looks at what must come.
const probeInterval = 50 * time.Millisecond

// shared is what the tests of the package have in common.
var shared *world

type world struct {
	root     string // the repository
	chart    string // the chart's folder
	programs programs.Set
	home     string // of the helm programs
	// start starts the control plane that all tests share, the first time.
	start func() (*controlplane.ControlPlane, error)
	// disks starts the provisioner that all tests share, the first time.
	disks func() (*provisioner.Provisioner, error)
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &world{}
	if w.root, err = programs.Root(); err != nil {
		return 1, err
	}
	w.chart = filepath.Join(w.root, "charts", "prebind")
	w.programs, err = programs.Ensure(ctx, programs.Config{Out: os.Stderr},
		programs.HelmV3, programs.HelmV4, programs.Prebind, programs.Kubectl)
	if err != nil {
		return 1, err
	}
	if w.home, err = os.MkdirTemp("", "prebind-helm-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.home)) }()
	var started *controlplane.ControlPlane
	w.disks = sync.OnceValues(func() (*provisioner.Provisioner, error) {
		return provisioner.Start(ctx, started, provisioner.Options{})
	})
	w.start = sync.OnceValues(func() (*controlplane.ControlPlane, error) {
		cp, err := controlplane.Start(ctx, controlplane.Options{
			Out: os.Stderr, Embedded: true,
			// Addresses of Services that really lead to this machine: nobody forwards
			// them here, so what serves listens on them itself.
			APIServerArgs: []string{fmt.Sprintf("--service-cluster-ip-range=127.%d.0.0/16", 64+rand.IntN(128))},
		})
		started = cp
		if err != nil {
			return nil, err
		}
		return cp, addKinds(ctx, cp)
	})
	shared = w
	code = m.Run()
	if started != nil {
		err = started.Stop()
	}
	return code, err
}

// addKinds makes the kinds of cert-manager and the Prometheus operator known.
func addKinds(ctx context.Context, cp *controlplane.ControlPlane) error {
	if err := cp.ApplyManifests(ctx, filepath.Join("testdata", "crds.yaml")); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, probeInterval, patience, true, func(context.Context) (bool, error) {
		for group, want := range map[string]int{"cert-manager.io/v1": 2, "monitoring.coreos.com/v1": 3} {
			list, err := cp.Client().Discovery().ServerResourcesForGroupVersion(group)
			if err != nil || len(list.APIResources) != want {
				return false, nil //nolint:nilerr // not yet
			}
		}
		return true, nil
	})
}

// controlPlane returns the control plane that all tests share.
func controlPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	cp, err := shared.start()
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// eventually waits until the condition has no error any more.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), probeInterval, patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v: %v", what, err, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
