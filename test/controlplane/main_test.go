package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prebind/prebind/test/controlplane"
)

// plane is the control plane of this package's tests. They run one after the
// other, because some of them break it.
var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if os.Getenv("PREBIND_TEST_PROCESS_PARENT") != "" {
		os.Exit(m.Run()) // a test of processes that needs no control plane
	}
	ctx := context.Background()
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		Out:  os.Stderr,
		Step: func(name string, took time.Duration) { fmt.Printf("%-24s %s\n", name, took.Round(time.Millisecond)) },
	})
	if err == nil {
		err = plane.StartScheduler(ctx, controlplane.SchedulerOptions{PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 1})
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if plane != nil {
		err = errors.Join(err, plane.Stop())
	}
	if err == nil && code == 0 && !plane.Existing() { // whose connections stay open
		err = goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// skipExisting skips a test that breaks the control plane or reads its files.
func skipExisting(t *testing.T) {
	t.Helper()
	if plane.Existing() {
		t.Skip(controlplane.ErrExistingCluster)
	}
}
