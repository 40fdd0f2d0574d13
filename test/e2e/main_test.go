package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// shared is the control plane of the package, up from TestMain on.
var shared *world

type world struct {
	cp      *controlplane.ControlPlane
	prebind *controlplane.Prebind
	disks   *provisioner.Provisioner
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
	if err := moreParallel(); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Out: os.Stderr,
		// Hundreds of claims are bound here, and each costs the PV controller four
		// requests: at its default rate that is most of the tests' time.
		ControllerManagerArgs: []string{"--kube-api-qps=200", "--kube-api-burst=400"},
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
	// The program under test runs with the race detector on.
	if shared.prebind, err = cp.StartPrebind(ctx, controlplane.PrebindOptions{Race: true}); err != nil {
		return 1, err
	}
	stopKubelets, err := cp.RunKubelets(ctx)
	if err != nil {
		return 1, err
	}
	defer stopKubelets()
	if shared.disks, err = provisioner.Start(ctx, cp, provisioner.Options{}); err != nil {
		return 1, err
	}
	defer shared.disks.Stop()
	code = m.Run()
	return code, shared.checkAtRest(ctx)
}

// checkAtRest checks what every test could have left behind in prebind.
func (w *world) checkAtRest(ctx context.Context) error {
	log, err := os.ReadFile(w.prebind.Log())
	if err != nil {
		return err
	}
	if _, report, found := bytes.Cut(log, []byte("WARNING: DATA RACE")); found {
		return fmt.Errorf("prebind has a data race:%.4000s", report)
	}
	var last string
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		text, err := w.metrics(ctx)
		last = text
		return err == nil && strings.Contains(text, "\nprebind_volume_reservations 0\n") &&
			strings.Contains(text, "\nprebind_bind_calls_in_flight 0\n"), nil
	})
	if err != nil {
		return fmt.Errorf("prebind is not at rest: %w\n%s", err, last)
	}
	return nil
}

// metrics returns what GET /metrics answers.
func (w *world) metrics(ctx context.Context) (string, error) {
	_, text, err := send(ctx, http.MethodGet, w.prebind.OpsURL()+"/metrics", nil)
	return string(text), err
}

// startPrebind starts another prebind, for one test.
func (w *world) startPrebind(t *testing.T, opts controlplane.PrebindOptions) *controlplane.Prebind {
	t.Helper()
	opts.Race = true
	p, err := w.cp.StartPrebind(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// freezeControllers halts the controller manager, so that nothing finishes a
// binding, until the function returned is called, or the test ends.
func (w *world) freezeControllers(t *testing.T) (thaw func()) {
	t.Helper()
	if w.cp.Existing() {
		t.Skip(controlplane.ErrExistingCluster)
	}
	if err := w.cp.ControllerManager().Freeze(); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := w.cp.ControllerManager().Thaw(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// tail is the end of prebind's log, for a test that has failed.
func (w *world) tail() string { return w.prebind.Tail(20) }
