package load_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

// plane is the control plane of the package. Its tests run one after the other.
var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	var err error
	plane, err = controlplane.Start(context.Background(), controlplane.Options{
		Out: os.Stderr,
		// At its default rate the controller manager is still busy with the
		// thousands of claims of one test when the next one needs it.
		ControllerManagerArgs: []string{"--kube-api-qps=200", "--kube-api-burst=400"},
	})
	code := 1
	if err == nil {
		code = m.Run()
	}
	if plane != nil {
		err = errors.Join(err, plane.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
