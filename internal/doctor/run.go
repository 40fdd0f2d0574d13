package doctor

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/registration"
)

// Options say what to look at. What is left out is not looked at.
type Options struct {
	// SchedulerConfig is the path of a KubeSchedulerConfiguration file.
	SchedulerConfig string
	// Config is the path of a PrebindConfiguration file.
	Config string
	// KnownPlugins are the plugins that Config may name. Nil: not checked.
	KnownPlugins *config.Plugins
	// Endpoint is where the scheduler calls prebind.
	Endpoint Endpoint
	// Metrics are URLs of prebind's ops listener, one for each replica, with or
	// without /metrics. Empty: replicas are looked for in the cluster.
	Metrics []string

	// Cluster reaches the API server. Nil: there is none, and NoCluster says why.
	Cluster   *rest.Config
	NoCluster string
	// ClusterChosen makes it a fault if the API server cannot be reached, since
	// somebody asked for it.
	ClusterChosen bool
	// ServiceAccount is whose rights are checked. Zero: see check rbac.
	ServiceAccount types.NamespacedName

	// BeforeUninstall adds the check of that name.
	BeforeUninstall bool

	// Progress is told the name of each check before it runs, and "" at the end.
	// Nil: nobody.
	Progress func(check string)
	// StepTimeout ends what one check waits for. Zero: 10 seconds.
	StepTimeout time.Duration
	// Now is the time. Zero: the clock's.
	Now time.Time
}

// Endpoint is where kube-scheduler calls, and what it shows and trusts there.
type Endpoint struct {
	// URL is http or https; without a path, /v1 is meant. Nil: not checked.
	URL *url.URL
	// CA, Cert and Key are PEM data. Without CA the machine's own authorities
	// are trusted. What is left empty is taken from the scheduler's
	// configuration if that names the same host and port.
	CA, Cert, Key []byte
	// ServerName is the name to expect in the certificate. Empty: the URL's host.
	ServerName string
}

// outcome is what a check answers.
type outcome struct {
	summary  string
	skipped  bool
	findings []Finding
}

func skipped(format string, args ...any) outcome {
	return outcome{summary: fmt.Sprintf(format, args...), skipped: true}
}

// exam is one run: what was asked for and what the checks have learnt so far.
type exam struct {
	Options

	prebind    *config.PrebindConfiguration // nil: not given, or not valid
	registered *registration.Found          // nil: not given, or no such file
	cluster    *cluster                     // nil: see noCluster
	noCluster  string
	replicas   []replica
	noReplicas string // why there are none
	waiting    *waiting
}

// check is one named check.
type check struct {
	name string
	run  func(e *exam, ctx context.Context) outcome
}

// checks are in the order of the report. Some use what earlier ones learnt;
// replicas are read before the endpoint is called.
func (e *exam) checks() []check {
	all := []check{
		{"prebind-config", (*exam).checkPrebindConfig},
		{"scheduler-config", (*exam).checkSchedulerConfig},
		{"cluster", (*exam).checkCluster},
		{"versions", (*exam).checkVersions},
		{"replicas", (*exam).checkReplicas},
		{"rbac", (*exam).checkRBAC},
		{"endpoint", (*exam).checkEndpoint},
		{"storage-classes", (*exam).checkClasses},
		{"pods-waiting", (*exam).checkWaiting},
		{"wired-in", (*exam).checkWired},
	}
	if e.BeforeUninstall {
		all = append(all, check{"before-uninstall", (*exam).checkUninstall})
	}
	return all
}

// Run runs all checks. When ctx ends, the checks that are left have little to
// tell but that. The error is for bad options: a file that cannot be read.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	if opts.StepTimeout == 0 {
		opts.StepTimeout = 10 * time.Second
	}
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	for _, file := range []string{opts.Config, opts.SchedulerConfig} {
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("reading a configuration: %w", err)
		}
	}
	e := &exam{Options: opts}
	report := &Report{}
	defer opts.Progress("")
	for _, check := range e.checks() {
		opts.Progress(check.name)
		stepCtx, cancel := context.WithTimeout(ctx, opts.StepTimeout)
		report.add(check.name, check.run(e, stepCtx))
		cancel()
	}
	return report, nil
}
