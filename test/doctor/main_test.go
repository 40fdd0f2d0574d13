package doctor_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// shared is the control plane of the package, and where the programs are.
var shared struct {
	cp       *controlplane.ControlPlane
	programs programs.Set
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
	if shared.programs, err = programs.Ensure(ctx, programs.Config{Out: os.Stderr}, programs.Prebind, programs.Kubectl); err != nil {
		return 1, err
	}
	// The scheduler under test is the only one, so the cluster must be our own.
	shared.cp, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Embedded: true})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.cp.Stop(); err == nil {
			err = stopErr
		}
	}()
	return m.Run(), nil
}
