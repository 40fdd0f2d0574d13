package registration

import (
	"fmt"
	"slices"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Defaults that are not in the file.
const (
	defaultBindTimeout = 10 * time.Minute
	// unsetHTTPTimeout is what kube-scheduler takes for an httpTimeout of 0.
	unsetHTTPTimeout     = 5 * time.Second
	defaultSchedulerName = "default-scheduler"
)

// Check finds every known mistake in a kube-scheduler configuration file that
// is meant to register prebind: faults first, then advice, each in the order of
// the file. No problem at all means that it is registered, and rightly.
//
// The error is for text that is no KubeSchedulerConfiguration of a version that
// is understood, with all mistakes of form and their lines (an Aggregate of
// apimachinery when there are several); kube-scheduler would refuse it as well.
func Check(data []byte, o CheckOptions) ([]Problem, *Found, error) {
	f, err := decode(data)
	if err != nil {
		return nil, nil, err
	}
	if o.BindTimeout == 0 {
		o.BindTimeout = defaultBindTimeout
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	c := &checker{cfg: f.cfg, options: o, found: &Found{}}
	c.checkClient()
	c.checkProfiles()
	c.checkExtenders()
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return rank(a.Severity) - rank(b.Severity) })
	return c.problems, c.found, nil
}

func rank(s Severity) int {
	if s == Fault {
		return 0
	}
	return 1
}

// checker gathers what is found in one file.
type checker struct {
	cfg      *configv1.KubeSchedulerConfiguration
	options  CheckOptions
	found    *Found
	problems []Problem
	shapes   []shape // one a profile
}

func (c *checker) fault(check, path, what, why, mend string) {
	c.problems = append(c.problems, Problem{Fault, check, path, what, why, mend})
}

func (c *checker) advise(check, path, what, why, mend string) {
	c.problems = append(c.problems, Problem{Advice, check, path, what, why, mend})
}

// profiles returns the profiles after kube-scheduler's defaults.
func (c *checker) profiles() []configv1.KubeSchedulerProfile {
	if len(c.cfg.Profiles) == 0 {
		return []configv1.KubeSchedulerProfile{{}}
	}
	return c.cfg.Profiles
}

// hasDefaultScheduler tells whether the file is that of the cluster's own
// scheduler, which as a rule is a static pod on the host network.
func (c *checker) hasDefaultScheduler() bool {
	return slices.Contains(c.found.SchedulerNames, defaultSchedulerName)
}

// checkClient is the first to run, and also notes the profiles' names.
func (c *checker) checkClient() {
	for _, p := range c.profiles() {
		name := ""
		switch {
		case p.SchedulerName != nil:
			name = *p.SchedulerName
		case len(c.cfg.Profiles) <= 1:
			name = defaultSchedulerName
		}
		c.found.SchedulerNames = append(c.found.SchedulerNames, name)
	}
	c.found.Kubeconfig = c.cfg.ClientConnection.Kubeconfig
	if c.found.Kubeconfig == "" && c.hasDefaultScheduler() {
		c.advise("no-kubeconfig", "clientConnection.kubeconfig",
			"The file names no kubeconfig.",
			"With --config, kube-scheduler ignores its flag --kubeconfig. A scheduler that is a static pod or a service of the host has no service account to fall back on, and does not start.",
			"Unless this scheduler runs in a pod with a service account, set clientConnection.kubeconfig to the file that --kubeconfig names now (kubeadm: /etc/kubernetes/scheduler.conf).")
	}
}

// profile names a profile in a sentence.
func (c *checker) profile(i int) string {
	return fmt.Sprintf("profile %q", c.found.SchedulerNames[i])
}

func profilePath(i int) string { return fmt.Sprintf("profiles[%d]", i) }
