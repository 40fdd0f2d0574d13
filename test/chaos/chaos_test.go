package chaos_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/test/chaos"
	"github.com/prebind/prebind/test/controlplane"
)

// seedVariable names the environment variable with the seed of TestChaos.
const seedVariable = "PREBIND_CHAOS_SEED"

// TestChaos is the small version of `make chaos`.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	klog.SetLogger(logr.Discard()) // client-go complains whenever the API server is away
	t.Cleanup(klog.ClearLogger)
	opts := chaos.Options{Seed: 1, Pods: 160, For: 60 * time.Second, Settle: 3 * time.Minute, Out: os.Stderr}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if opts.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("reading %s: %v", seedVariable, err)
		}
	}
	cp, err := controlplane.Start(t.Context(), chaos.ControlPlane())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	report, err := chaos.Run(t.Context(), cp, opts)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	report.Write(&text)
	t.Logf("%s=%d\n%s", seedVariable, opts.Seed, &text)
	if !report.OK() {
		t.Errorf("a check failed, see above; run it again with %s=%d or `make chaos SEED=%d`; logs and objects: %s",
			seedVariable, opts.Seed, opts.Seed, report.Logs)
	}
}
