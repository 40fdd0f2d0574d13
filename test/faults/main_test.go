package faults_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// shared is the control plane of the package, up from TestMain on.
var shared *world

type world struct {
	cp    *controlplane.ControlPlane
	disks *provisioner.Provisioner
	// a and b are two replicas; tests that need only one use a.
	a, b *stand
	// hasty has a volumes.bindTimeout of hastyTimeout.
	hasty *stand
}

func TestMain(m *testing.M) {
	// The tests wait more than they compute. A value given to `go test` wins.
	code := 1
	err := flag.Set("test.parallel", "12")
	if err == nil {
		code, err = runTests(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Out: os.Stderr, NoAudit: true,
		Embedded: true, // these tests kill the control plane's processes
		// At the default rate the PV controller is what the tests wait for.
		ControllerManagerArgs: []string{"--kube-api-qps=500", "--kube-api-burst=1000"},
	})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := cp.Stop(); err == nil {
			err = stopErr
		}
	}()
	shared = &world{cp: cp}
	if shared.disks, err = provisioner.Start(ctx, cp, provisioner.Options{}); err != nil {
		return 1, err
	}
	defer shared.disks.Stop()
	if err := shared.startStands(ctx); err != nil {
		return 1, err
	}
	code = m.Run()
	for _, s := range []*stand{shared.a, shared.b, shared.hasty} {
		if restErr := s.checkAtRest(ctx); err == nil {
			err = restErr
		}
		s.proxy.Stop()
	}
	return code, err
}

func (w *world) startStands(ctx context.Context) error {
	var err error
	if w.a, err = startStand(ctx, controlplane.PrebindOptions{Name: "a"}); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() (err error) {
		w.b, err = startStand(ctx, controlplane.PrebindOptions{Name: "b"})
		return err
	})
	group.Go(func() (err error) {
		w.hasty, err = startStand(ctx, controlplane.PrebindOptions{Name: "hasty", BindTimeout: hastyTimeout})
		return err
	})
	return group.Wait()
}
