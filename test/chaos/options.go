package chaos

import (
	"io"
	"time"

	"github.com/prebind/prebind/test/controlplane"
)

// Options say what to run. The zero value is the run of `make chaos`.
type Options struct {
	// Seed decides what happens. Any number, also 0, is a seed.
	Seed uint64
	// Pods is the number of pods that can be bound. Some that cannot are added.
	// Zero: 500.
	Pods int
	// For is how long there is trouble. It takes longer if a killed program has
	// not come back in time for its second death. Zero: 3 minutes.
	For time.Duration
	// Settle is how long the pods may take to be bound once the trouble is over.
	// Zero: 5 minutes.
	Settle time.Duration
	// Direct has prebind complete static bindings itself (volumes.staticCompletion).
	Direct bool
	// Out gets the progress. Nil: nobody.
	Out io.Writer
}

func (o *Options) setDefaults() {
	if o.Pods == 0 {
		o.Pods = 500
	}
	if o.For == 0 {
		o.For = 3 * time.Minute
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Minute
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
}

// ControlPlane returns the control plane to run on: with the controller manager's request
// rate of 20 a second most of the time would be spent waiting for it.
func ControlPlane() controlplane.Options {
	return controlplane.Options{
		Embedded:              true,
		ControllerManagerArgs: []string{"--kube-api-qps=200", "--kube-api-burst=400"},
	}
}
