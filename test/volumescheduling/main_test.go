package volumescheduling_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// patience is how long a scenario waits for what must come. It is never the
// measure of anything.
const patience = 4 * time.Minute

// The provisioners. What the scheduler is told about their capacity is made
// before it starts, so that no scenario has to guess when it knows.
const (
	driver       = "plain.volumescheduling.prebind.dev"  // has no CSIDriver object
	driverOne    = "one.volumescheduling.prebind.dev"    // reports its capacity
	driverTwo    = "two.volumescheduling.prebind.dev"    // reports its capacity
	driverSilent = "silent.volumescheduling.prebind.dev" // says that it does not
)

// seed makes the random scenarios repeatable: go test ./volumescheduling -args -seed=N.
var seed = flag.Uint64("seed", 0, "seed of the random scenarios; 0: of the clock")

// shared is the control plane of the package, up from TestMain on.
var shared *world

type world struct {
	cp      *controlplane.ControlPlane
	prebind *controlplane.Prebind
	disks   *provisioner.Provisioner // of driver
	history *history
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait more than they work: run more of them than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("seed of the random scenarios: %d\n", *seed)
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
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Out:     os.Stderr,
		NoAudit: true, // no scenario reads it, and there are many requests
		// Hundreds of claims are bound at once: at the default 20 requests a second
		// the tests would measure the limit.
		ControllerManagerArgs: []string{"--kube-api-qps=500", "--kube-api-burst=1000"},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	shared = &world{cp: cp}
	if shared.history, err = startHistory(ctx, cp.Client()); err != nil {
		return 1, err
	}
	// The program under test runs with the race detector on.
	if shared.prebind, err = cp.StartPrebind(ctx, controlplane.PrebindOptions{Race: true}); err != nil {
		return 1, err
	}
	stop, err := shared.startDrivers(ctx)
	defer stop()
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, errors.Join(shared.checkAtRest(ctx), shared.checkRaces())
}

// startDrivers runs the provisioners and tells the cluster which of them report
// their capacity. stop is valid even after an error.
func (w *world) startDrivers(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, each := range stops {
			each()
		}
	}
	drivers := w.cp.Client().StorageV1().CSIDrivers()
	for name, reports := range map[string]bool{driverOne: true, driverTwo: true, driverSilent: false} {
		object := &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.CSIDriverSpec{StorageCapacity: &reports, AttachRequired: new(false)},
		}
		if _, err := drivers.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return stop, fmt.Errorf("creating CSIDriver %s: %w", name, err)
		}
		stops = append(stops, func() { _ = drivers.Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	for _, name := range []string{driver, driverOne, driverTwo, driverSilent} {
		disks, err := provisioner.Start(ctx, w.cp, provisioner.Options{Name: name})
		if err != nil {
			return stop, err
		}
		stops = append(stops, disks.Stop)
		if name == driver {
			w.disks = disks
		}
	}
	return stop, nil
}

// checkAtRest checks that prebind holds nothing and does nothing when every
// scenario has ended.
func (w *world) checkAtRest(ctx context.Context) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		last, err = w.metrics(ctx)
		return err == nil && strings.Contains(last, "\nprebind_volume_reservations 0\n") &&
			strings.Contains(last, "\nprebind_bind_calls_in_flight 0\n"), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until prebind has no reservation and no call: %w; its metrics:\n%s", err, last)
	}
	return nil
}

// checkRaces looks in prebind's log for what the race detector has found.
func (w *world) checkRaces() error {
	log, err := os.ReadFile(w.prebind.Log())
	if err != nil {
		return fmt.Errorf("reading prebind's log: %w", err)
	}
	if _, report, found := bytes.Cut(log, []byte("WARNING: DATA RACE")); found {
		return fmt.Errorf("prebind has a data race:%.4000s", report)
	}
	return nil
}

// metrics returns what GET /metrics answers.
func (w *world) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.prebind.OpsURL()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	return string(text), errors.Join(err, response.Body.Close())
}
