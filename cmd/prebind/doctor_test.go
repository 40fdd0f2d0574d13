package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/prebind/prebind/internal/doctor"
)

// noCluster takes away every way to find one.
func noCluster(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
}

const (
	exampleScheduler = "../../examples/scheduler-config.yaml"
	examplePrebind   = "../../examples/prebind.yaml"
)

func TestDoctorUsage(t *testing.T) {
	noCluster(t)
	missing := filepath.Join(t.TempDir(), "missing")
	tests := map[string]struct {
		args   []string
		stderr string
	}{
		"nothing at all":            {nil, "nothing to look at: give --scheduler-config, --config, --endpoint, --metrics or a cluster by --kubeconfig: no kubeconfig was found, and this is no pod of a cluster"},
		"an unknown format":         {[]string{"-o", "yaml"}, `unknown --output "yaml", known ones: text, json`},
		"no time":                   {[]string{"--timeout", "0s"}, "--timeout 0s: must be more than 0"},
		"no such scheduler's file":  {[]string{"--scheduler-config", missing}, missing},
		"no such file of prebind's": {[]string{"--config", missing}, missing},
		"no such kubeconfig":        {[]string{"--kubeconfig", missing}, "loading the kubeconfig " + missing},
		"an account, no cluster":    {[]string{"--config", examplePrebind, "--service-account", "a/b"}, "no kubeconfig was found"},
		"a malformed account":       {[]string{"--service-account", "prebind"}, `--service-account "prebind": must be NAMESPACE/NAME`},
		"an endpoint without a URL": {[]string{"--endpoint", "10.0.0.1:8443"}, `--endpoint "10.0.0.1:8443": must be a URL`},
		"metrics without a URL":     {[]string{"--metrics", "x"}, `--metrics "x": must be a URL`},
		"certificates for nothing":  {[]string{"--ca-file", "x"}, "need an --endpoint"},
		"half a client certificate": {[]string{"--endpoint", "https://x", "--cert-file", "x"}, "--cert-file and --key-file go together"},
		"no such CA":                {[]string{"--endpoint", "https://x", "--ca-file", missing}, "reading --ca-file: open " + missing},
		"an argument":               {[]string{"now"}, `unknown command "now"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"doctor"}, tc.args...), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d, want 2", code)
			}
			wantParts(t, "stderr", stderr.String(), []string{tc.stderr, "See 'prebind doctor --help'."})
			wantParts(t, "stdout", stdout.String(), nil)
		})
	}
}

func TestDoctorWithoutCluster(t *testing.T) {
	noCluster(t)
	text, err := os.ReadFile(exampleScheduler)
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Replace(text, []byte("    reserve:\n      disabled:\n      - name: VolumeBinding\n"), nil, 1)
	if len(half) == len(text) {
		t.Fatal("the example has no such lines")
	}
	bad := write(t, "half.yaml", string(half))
	tests := map[string]struct {
		file   string
		code   int
		stdout []string
	}{
		"good": {exampleScheduler, exitOK, []string{"✓ scheduler-config ", "mode bind", "- rbac              skipped: no cluster\n", "Nothing found: 10 checks, 2 ok, 8 skipped.\n"}},
		"bad":  {bad, exitFailure, []string{"✗ scheduler-config ", "profiles[0].plugins.reserve", "why:", "mend:", "1 fault, "}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"doctor", "--config", examplePrebind, "--scheduler-config", tc.file}
			if code := run(t.Context(), args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			wantParts(t, "stdout", stdout.String(), tc.stdout)
			wantParts(t, "stderr", stderr.String(), nil)
			if bytes.ContainsRune(stdout.Bytes(), '\x1b') {
				t.Error("colours without a terminal")
			}

			stdout.Reset()
			if code := run(t.Context(), append(args, "-o", "json"), &stdout, &stderr); code != tc.code {
				t.Errorf("-o json: exit code %d, want %d", code, tc.code)
			}
			var report doctor.Report
			if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
				t.Fatalf("%v:\n%s", err, stdout.String())
			}
			if len(report.Checks) != 10 || (report.Faults > 0) != (tc.code == exitFailure) {
				t.Errorf("report: %+v", report)
			}
		})
	}
}
