package controlplane

import (
	"errors"
	"io"
	"time"
)

// KubeconfigVariable names the environment variable that makes [Start] take an
// existing cluster.
const KubeconfigVariable = "PREBIND_TEST_KUBECONFIG"

// ErrExistingCluster is answered by what only an embedded control plane can do.
var ErrExistingCluster = errors.New("not available on an existing cluster")

// Options say what control plane to start. The zero value is a good one.
type Options struct {
	// Out gets the progress of building the programs. Nil: nobody.
	Out io.Writer
	// Step is told what has been started and how long it took. Nil: nobody.
	Step func(name string, took time.Duration)
	// Embedded starts a control plane even if PREBIND_TEST_KUBECONFIG is set.
	Embedded bool
	// NoAudit leaves the API server's audit log off, as it is by default, for
	// measurements. Audit then answers an error.
	NoAudit bool
	// ControllerManagerArgs are added to kube-controller-manager's arguments, as
	// in --kube-api-qps=200. Its request rate is the default one (20 a second)
	// unless such an argument says otherwise.
	ControllerManagerArgs []string
	// APIServerArgs are added to kube-apiserver's arguments.
	APIServerArgs []string
	// ReadyTimeout bounds the start of each program. Zero: 90 seconds.
	ReadyTimeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Step == nil {
		o.Step = func(string, time.Duration) {}
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 90 * time.Second
	}
}
