package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/version"
)

func TestMain(m *testing.M) {
	// klog keeps a flush daemon for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// write puts a file into a new folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunUsage(t *testing.T) {
	tests := map[string]struct {
		args           []string
		code           int
		stdout, stderr []string // parts of it
	}{
		"nothing":                  {args: []string{}, code: 0, stdout: []string{"Usage:\n  prebind [command]", "serve ", "version "}},
		"help":                     {args: []string{"-h"}, code: 0, stdout: []string{"prebind takes over kube-scheduler's bind step"}},
		"help on serve":            {args: []string{"serve", "-h"}, code: 0, stdout: []string{"  apiVersion: prebind.dev/v1alpha1\n", "bindVerb: bind", "--kubeconfig string"}},
		"help on scheduler-config": {args: []string{"scheduler-config", "-h"}, code: 0, stdout: []string{"on\nstandard output the YAML and nothing else", "--patch FILE", "Exit codes: 0 printed, 1 ", "--from-service string"}},
		"unknown command":          {args: []string{"bind"}, code: 2, stderr: []string{`prebind: unknown command "bind" for "prebind"`, "See 'prebind --help'."}},
		"unknown flag":             {args: []string{"serve", "--port", "1"}, code: 2, stderr: []string{"prebind: unknown flag: --port", "See 'prebind serve --help'."}},
		"no configuration":         {args: []string{"serve"}, code: 2, stderr: []string{`required flag(s) "config" not set`}},
		"an argument":              {args: []string{"serve", "--config", "a", "b"}, code: 2, stderr: []string{`unknown command "b" for "prebind serve"`}},
		"version":                  {args: []string{"version"}, code: 0, stdout: []string{"prebind    ", "commit     ", "go         go1.", "kubernetes v0."}},
		"version as YAML":          {args: []string{"version", "-o", "yaml"}, code: 0, stdout: []string{"goVersion: go1."}},
		"version as XML":           {args: []string{"version", "-o", "xml"}, code: 2, stderr: []string{`prebind: unknown --output "xml", known ones: json, yaml`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			wantParts(t, "stdout", stdout.String(), tc.stdout)
			wantParts(t, "stderr", stderr.String(), tc.stderr)
		})
	}
}

// wantParts wants every part in text, and no text without parts.
func wantParts(t *testing.T, name, text string, parts []string) {
	t.Helper()
	if len(parts) == 0 && text != "" {
		t.Errorf("%s is not empty:\n%s", name, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", name, part, text)
		}
	}
}

func TestRunVersionJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"version", "--output=json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var got version.Info
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got != version.Get() {
		t.Errorf("got %+v", got)
	}
}

func TestRunBadConfig(t *testing.T) {
	const header = "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\n"
	tests := map[string]struct {
		file string
		want []string // lines, each after the file's name
	}{
		"all mistakes at once": {
			file: header + "server: {Address: 'x'}\nlogging: {level: loud}\nplugins: {bind: [Mine]}\n",
			want: []string{
				`logging.level: Unsupported value: "loud": supported values: "debug", "info", "warn", "error"`,
				`plugins.bind[0]: Unsupported value: "Mine": supported values: "DefaultBinder", "ProvisioningLimit", "VolumeBinding"`,
				`server.Address: Forbidden: unknown key, did you mean "address"?`,
			},
		},
		"no YAML": {file: "{", want: []string{"parsing YAML: yaml: line 1: did not find expected node content"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, "config.yaml", tc.file)
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), []string{"serve", "--config", path}, &stdout, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			var want strings.Builder
			for _, line := range tc.want {
				want.WriteString(path + ": " + line + "\n")
			}
			if got := stderr.String(); got != want.String() {
				t.Errorf("stderr:\n%swant:\n%s", got, want.String())
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		var stderr bytes.Buffer
		path := filepath.Join(t.TempDir(), "none.yaml")
		if code := run(t.Context(), []string{"serve", "--config", path}, &stderr, &stderr); code != 2 || !strings.HasPrefix(stderr.String(), path+": reading configuration: ") {
			t.Errorf("exit code %d, stderr %s", code, stderr.String())
		}
	})
}

func TestRunNoAPIServer(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	inConfig := write(t, "config.yaml", "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\nclientConnection: {kubeconfig: '"+missing+"'}\n")
	defaults := write(t, "default.yaml", config.DefaultYAML())
	t.Setenv("KUBECONFIG", missing)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := map[string]struct {
		args []string
		want string
	}{
		"the flag's file":     {[]string{"--config", inConfig, "--kubeconfig", missing + "-flag"}, "prebind: loading the kubeconfig " + missing + "-flag (--kubeconfig): "},
		"the configuration's": {[]string{"--config", inConfig}, "prebind: loading the kubeconfig " + missing + " (clientConnection.kubeconfig): "},
		"none at all":         {[]string{"--config", defaults}, "prebind: no --kubeconfig, no clientConnection.kubeconfig, not inside a cluster; using the default kubeconfig (" + missing + "): "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"serve"}, tc.args...), &stderr, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			wantParts(t, "stderr", stderr.String(), []string{tc.want})
		})
	}
}
