package registration

import (
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Defaults that are not in the file.
const (
	defaultBindTimeout = 10 * time.Minute
	// defaultHTTPTimeout is what kube-scheduler takes for an httpTimeout of 0.
	defaultHTTPTimeout = 5 * time.Second
)

// Check finds every known mistake in a kube-scheduler configuration file that
// is meant to register prebind: faults first, then advice, each in the order of
// the file. No problem at all means that it is registered, and rightly.
//
// The error is for text that is no KubeSchedulerConfiguration of a version that
// is understood, with all mistakes of form and their lines; kube-scheduler would
// refuse it as well.
func Check(data []byte, o CheckOptions) ([]Problem, *Found, error) {
	cfg, err := decode(data)
	if err != nil {
		return nil, nil, err
	}
	if o.BindTimeout == 0 {
		o.BindTimeout = defaultBindTimeout
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	c := &checker{cfg: cfg, options: o, found: &Found{Mode: ModeNone}}
	c.run()
	return c.problems, c.found, nil
}

// checker gathers what is found in one file.
type checker struct {
	cfg      *configv1.KubeSchedulerConfiguration
	options  CheckOptions
	found    *Found
	problems []Problem
}

func (c *checker) run() {}
