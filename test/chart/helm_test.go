package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prebind/prebind/test/programs"
)

// helm is one version of Helm.
type helm struct {
	name    string
	major   int
	program programs.Program
}

func helms() []helm {
	return []helm{{"Helm 3", 3, programs.HelmV3}, {"Helm 4", 4, programs.HelmV4}}
}

// kubeVersion is the cluster that charts are rendered for without one.
const kubeVersion = "v1.37.2"

// run runs helm and returns its standard output. The error carries what it
// wrote to its standard error.
func (h helm) run(ctx context.Context, args ...string) (string, error) {
	return h.runOn(ctx, filepath.Join(shared.home, "none"), args...)
}

// runOn runs helm against the cluster of a kubeconfig, without the settings,
// caches and plugins of the user who runs the tests.
func (h helm) runOn(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, shared.programs.Path(h.program), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + shared.home, "KUBECONFIG=" + kubeconfig}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s %s: %w\n%s", h.name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// template renders the chart as release prebind in kube-system.
func (h helm) template(ctx context.Context, values string) (string, error) {
	return h.templateAs(ctx, "prebind", "kube-system", values)
}

func (h helm) templateAs(ctx context.Context, release, namespace, values string) (string, error) {
	file, err := valuesFile(values)
	if err != nil {
		return "", err
	}
	return h.run(ctx, "template", release, shared.chart, "--namespace", namespace, "--kube-version", kubeVersion, "--values", file)
}

// valuesFile writes values to a file that lasts as long as the tests.
func valuesFile(values string) (string, error) {
	file, err := os.CreateTemp(shared.home, "values-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(values)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return file.Name(), err
}

// eachHelm runs a test once with each version.
func eachHelm(t *testing.T, test func(*testing.T, helm)) {
	for _, h := range helms() {
		t.Run(h.name, func(t *testing.T) { test(t, h) })
	}
}
