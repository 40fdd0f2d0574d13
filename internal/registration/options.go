package registration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultHTTPTimeout of the entry that binds: prebind's default
	// volumes.bindTimeout (10m) and a minute.
	DefaultHTTPTimeout = 11 * time.Minute
	// filterTimeout of the entry that filters: what kube-scheduler takes by
	// default, written out.
	filterTimeout = 5 * time.Second
)

// Options say how prebind is registered. All paths are those that
// kube-scheduler sees, which in a static pod are paths inside the container.
type Options struct {
	// Mode is one of ModeBind (the default), ModeFull and ModeStock; to Patch
	// also ModeNone.
	Mode Mode
	// URL is scheme, host and port of prebind; "/v1" is added. Required, but
	// Patch keeps the URL of an entry that is there.
	URL string
	// CAFile or CAData (PEM) verify the server. One is required with https, for
	// kube-scheduler verifies nothing without; Patch keeps the one that is there.
	CAFile string
	CAData []byte
	// CertFile and KeyFile hold the client certificate. Both or none.
	CertFile, KeyFile string
	// ServerName is the name that the server's certificate has, when the URL
	// holds an address.
	ServerName string
	// HTTPTimeout ends a bind call; it must be above prebind's bindTimeout.
	// Zero: DefaultHTTPTimeout, or, to Patch, what is there if it is no less.
	HTTPTimeout time.Duration
	// KubeconfigPath is the scheduler's own kubeconfig. Empty: none is written.
	// Patch writes it only where none is set.
	KubeconfigPath string
	// SchedulerNames are the profiles to generate. Empty: "default-scheduler".
	// Patch goes by the profiles that are there and takes none.
	SchedulerNames []string
}

// checked returns the options with their defaults, and an error for what does
// not go together.
func (o Options) checked() (Options, error) {
	if o.Mode == "" {
		o.Mode = ModeBind
	}
	if !slices.Contains([]Mode{ModeBind, ModeFull, ModeStock, ModeNone}, o.Mode) {
		return o, fmt.Errorf("unknown mode %q, known ones: bind, full, stock", o.Mode)
	}
	if o.HTTPTimeout < 0 {
		return o, fmt.Errorf("the HTTP timeout must be above zero, it is %s", o.HTTPTimeout)
	}
	if err := o.checkNames(); err != nil {
		return o, err
	}
	if o.URL == "" {
		return o, o.checkWithoutURL()
	}
	url, err := prefix(o.URL)
	if err != nil {
		return o, err
	}
	o.URL = url
	return o, o.checkTLS()
}

func (o Options) checkNames() error {
	for i, name := range o.SchedulerNames {
		if name == "" {
			return errors.New("a scheduler name is empty")
		}
		if slices.Contains(o.SchedulerNames[:i], name) {
			return fmt.Errorf("the scheduler name %q stands twice", name)
		}
	}
	return nil
}

func (o Options) https() bool { return strings.HasPrefix(o.URL, "https://") }

func (o Options) hasCA() bool { return o.CAFile != "" || len(o.CAData) > 0 }

func (o Options) hasTLS() bool {
	return o.hasCA() || o.CertFile != "" || o.KeyFile != "" || o.ServerName != ""
}

// errNoCA is returned where the scheduler would verify nothing.
func errNoCA() error {
	return errors.New("an https URL needs a CA: without one kube-scheduler does not verify who answers")
}

func (o Options) checkWithoutURL() error {
	if o.hasTLS() {
		return errors.New("the CA, the certificate and the server name go with a URL, and none is given")
	}
	return nil
}

func (o Options) checkTLS() error {
	switch {
	case !o.https() && o.hasTLS():
		return fmt.Errorf("the CA, the certificate and the server name go with an https URL, this one is %s", o.URL)
	case o.CAFile != "" && len(o.CAData) > 0:
		return errors.New("the CA is either a file or written into the configuration, not both")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("the client certificate and its key go together, one of them is missing")
	}
	if len(o.CAData) > 0 {
		if _, err := parsePEM(o.CAData); err != nil {
			return fmt.Errorf("reading the CA: %w", err)
		}
	}
	return nil
}
