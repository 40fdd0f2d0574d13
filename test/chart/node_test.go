package chart_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

// The lines around the configuration in the notes.
const (
	configBegin = "# ---- begin kube-scheduler configuration ----"
	configEnd   = "# ---- end kube-scheduler configuration ----"
)

// node stands for a control-plane node: a folder for its /etc/kubernetes, and
// the cluster's own kube-scheduler.
type node struct {
	t   *testing.T
	cp  *controlplane.ControlPlane
	etc string // instead of /etc/kubernetes
	bin string // has programs under the names that commands call them by
}

func newNode(t *testing.T, cp *controlplane.ControlPlane) *node {
	t.Helper()
	n := &node{t: t, cp: cp, etc: t.TempDir(), bin: t.TempDir()}
	config, err := cp.UserConfig("system:kube-scheduler")
	must(t, err)
	text, err := os.ReadFile(writeKubeconfig(t, config))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.etc, "scheduler.conf"), text, 0o600))
	return n
}

// onNode is all that is changed in commands and files for a node: its folder.
func (n *node) onNode(text string) string { return strings.ReplaceAll(text, "/etc/kubernetes", n.etc) }

// useHelm is the version that commands mean by helm.
func (n *node) useHelm(h helm) {
	n.t.Helper()
	must(n.t, os.Symlink(shared.programs.Path(h.program), filepath.Join(n.bin, "helm")))
}

// sh runs commands as the administrator and returns their standard output. The
// first one that fails ends them.
func (n *node) sh(commands string) string {
	n.t.Helper()
	out, err := n.try(commands)
	must(n.t, err)
	return out
}

func (n *node) try(commands string) (string, error) {
	cmd := exec.CommandContext(n.t.Context(), "bash", "-euo", "pipefail", "-c", n.onNode(commands))
	cmd.Dir = shared.root
	cmd.Env = []string{
		"PATH=" + n.bin + ":" + shared.programs.Dir() + ":" + os.Getenv("PATH"), "HOME=" + shared.home, "KUBECONFIG=" + n.cp.Kubeconfig(),
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running %s: %w\n%s%s", n.onNode(commands), err, out, stderr.String())
	}
	return string(out), nil
}

// fetchCertificates follows the notes' commands for the client certificate.
func (n *node) fetchCertificates(notes string) {
	n.t.Helper()
	commands := regexp.MustCompile(`(?ms)^ {5}install -d .*?\n {5}done$`).FindString(notes)
	if commands == "" {
		n.t.Fatalf("the notes do not tell how to fetch the certificates:\n%s", notes)
	}
	n.sh(commands)
}

// configOf cuts kube-scheduler's configuration out of the notes. An address
// that was not known yet comes from the command that they tell.
func (n *node) configOf(notes string) string {
	n.t.Helper()
	config := between(n.t, notes, configBegin, configEnd)
	if !strings.Contains(config, "CLUSTER-IP") {
		return config
	}
	command := regexp.MustCompile(`(?m)^ +(kubectl get service .*)$`).FindStringSubmatch(notes)
	if command == nil {
		n.t.Fatalf("the notes do not tell how to find CLUSTER-IP:\n%s", notes)
	}
	return strings.ReplaceAll(config, "CLUSTER-IP", n.sh(command[1]))
}

// runScheduler runs kube-scheduler with a configuration, until the test ends.
func (n *node) runScheduler(config string) {
	n.t.Helper()
	config = n.onNode(config)
	schedulerConfig(n.t, config)
	must(n.t, n.cp.StartSchedulerWithConfig(n.t.Context(), []byte(config)))
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("the last lines of kube-scheduler:\n%s", n.cp.Scheduler().Tail(20))
		}
	})
}
