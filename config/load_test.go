package config_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/config"
)

// header starts every file of the tables below.
const header = "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\n"

func TestDefaultYAMLEqualsDefault(t *testing.T) {
	got, err := config.Load([]byte(config.DefaultYAML()), config.Options{})
	if err != nil {
		t.Fatalf("loading the documented defaults: %v", err)
	}
	if diff := cmp.Diff(config.Default(), got); diff != "" {
		t.Errorf("DefaultYAML differs from Default (-default +file):\n%s", diff)
	}
	for _, key := range []string{"permit:", "postBind:", "insecure:", "tls:", "kubeconfig:", "staticCompletion:", "nominateWhileWaiting:", "debug:", "bound:", "perClass:", "classes:", "format:", "endpoint:", "samplingRatePerMillion:"} {
		if !strings.Contains(config.DefaultYAML(), key) {
			t.Errorf("DefaultYAML does not show the key %q", key)
		}
	}
}

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		file string
		want func(*config.PrebindConfiguration)
	}{
		"an empty file is all defaults":     {file: ""},
		"comments alone are all defaults":   {file: "# nothing\n---\n# here\n"},
		"a header alone is all defaults":    {file: header},
		"null keeps defaults":               {file: header + "server: null\nvolumes: {bindTimeout: null}\nplugins: {bind: null}\n"},
		"an empty document may follow":      {file: header + "---\n"},
		"empty plugins are the defaults":    {file: header + "plugins: {}\n"},
		"no apiVersion and kind":            {file: "logging: {level: warn}\n", want: func(c *config.PrebindConfiguration) { c.Logging.Level = "warn" }},
		"JSON is YAML":                      {file: `{"apiVersion":"prebind.dev/v1alpha1","kind":"PrebindConfiguration","logging":{"level":"warn"}}`, want: func(c *config.PrebindConfiguration) { c.Logging.Level = "warn" }},
		"one stage leaves the others alone": {file: header + "plugins: {permit: [Quota]}\n", want: func(c *config.PrebindConfiguration) { c.Plugins.Permit = []string{"Quota"} }},
		"port 0 on both": {file: header + "server: {address: '127.0.0.1:0', opsAddress: '127.0.0.1:0'}\n", want: func(c *config.PrebindConfiguration) {
			c.Server.Address, c.Server.OpsAddress = "127.0.0.1:0", "127.0.0.1:0"
		}},
		"localhost and IPv6": {file: header + "server: {address: 'localhost:1', opsAddress: '[::]:2'}\n", want: func(c *config.PrebindConfiguration) {
			c.Server.Address, c.Server.OpsAddress = "localhost:1", "[::]:2"
		}},
		"TLS anywhere, callers not authenticated": {file: header + "server: {address: ':8443', tls: {certFile: c, keyFile: k}}\n", want: func(c *config.PrebindConfiguration) {
			c.Server.Address, c.Server.TLS = ":8443", &config.TLS{CertFile: "c", KeyFile: "k"}
		}},
		"TLS for some callers": {file: header + "server: {tls: {certFile: c, keyFile: k, clientCAFile: a, allowedClientNames: [x, 'spiffe://y']}}\n", want: func(c *config.PrebindConfiguration) {
			c.Server.TLS = &config.TLS{CertFile: "c", KeyFile: "k", ClientCAFile: "a", AllowedClientNames: []string{"x", "spiffe://y"}}
		}},
		"plain HTTP anywhere, as asked for": {file: header + "server: {address: ':8888', insecure: true}\n", want: func(c *config.PrebindConfiguration) {
			c.Server.Address, c.Server.Insecure = ":8888", true
		}},
		"limits of classes, whose names may have dots": {file: header + "provisioningLimit: {perClass: 0, classes: {fast: 3, fast.example: 0}}\n", want: func(c *config.PrebindConfiguration) {
			c.ProvisioningLimit = config.ProvisioningLimit{Classes: map[string]int{"fast": 3, "fast.example": 0}}
		}},
		"limits of classes, and that of all others by default": {file: header + "provisioningLimit: {classes: {fast: 3}}\n", want: func(c *config.PrebindConfiguration) {
			c.ProvisioningLimit = config.ProvisioningLimit{PerClass: 10, Classes: map[string]int{"fast": 3}}
		}},
		"no classes, in all words for it": {file: header + "provisioningLimit: {perClass: null, classes: null}\nvolumes: {nominateWhileWaiting: null}\n"},
		"traces": {file: header + "tracing: {endpoint: 'https://otel.example:4318/prefix', samplingRatePerMillion: 1000000}\n", want: func(c *config.PrebindConfiguration) {
			c.Tracing = config.Tracing{Endpoint: "https://otel.example:4318/prefix", SamplingRatePerMillion: 1000000}
		}},
		"nominations":                        {file: header + "volumes: {nominateWhileWaiting: true}\n", want: func(c *config.PrebindConfiguration) { c.Volumes.NominateWhileWaiting = true }},
		"a fraction of a request per second": {file: header + "clientConnection: {qps: 0.5, burst: 1}\n", want: func(c *config.PrebindConfiguration) { c.ClientConnection.QPS, c.ClientConnection.Burst = 0.5, 1 }},
		"events off": {file: header + "events: {enabled: false}\nserver: {debug: true}\n", want: func(c *config.PrebindConfiguration) {
			c.Events.Enabled, c.Server.Debug = false, true
		}},
		"durations as Go writes them": {file: header + "volumes: {bindTimeout: 1m30s}\n", want: func(c *config.PrebindConfiguration) { c.Volumes.BindTimeout.Duration = 90 * time.Second }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load([]byte(tc.file), config.Options{})
			if err != nil {
				t.Fatalf("Load() error: %v", err)
			}
			want := config.Default()
			if tc.want != nil {
				tc.want(want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Load() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadMistakesOfForm(t *testing.T) {
	tests := map[string]struct {
		file string
		want []string
	}{
		"no YAML": {file: "server: [", want: []string{"parsing YAML: yaml: line 1: did not find expected node content"}},
		"a list":  {file: "- a\n", want: []string{`decoding configuration: the file must be a mapping of keys to values`}},
		"two documents": {
			file: header + "---\n" + header,
			want: []string{"the file holds more than one YAML document, only one is allowed"},
		},
		"unknown apiVersion and kind": {
			file: "apiVersion: prebind.dev/v2\nkind: Prebind\n",
			want: []string{
				`apiVersion: Unsupported value: "prebind.dev/v2": supported values: "prebind.dev/v1alpha1"`,
				`kind: Unsupported value: "Prebind": supported values: "PrebindConfiguration"`,
			},
		},
		"unknown keys": {
			file: header + "tls: {}\nserver: {port: 1}\n",
			want: []string{
				"server.port: Forbidden: unknown key, known ones here: address, opsAddress, debug, insecure, tls, maxBindCalls, maxFilterBytes, shutdownDelay, drainTimeout",
				"tls: Forbidden: unknown key, known ones here: apiVersion, kind, server, clientConnection, volumes, plugins, provisioningLimit, events, logging, tracing",
			},
		},
		"wrong case": {
			file: header + "Server: {}\nvolumes: {bindtimeout: 5m}\n",
			want: []string{
				`Server: Forbidden: unknown key, did you mean "server"?`,
				`volumes.bindtimeout: Forbidden: unknown key, did you mean "bindTimeout"?`,
			},
		},
		"a path as a key": {
			file: header + "server.address: 127.0.0.1:1\n",
			want: []string{`server.address: Forbidden: unknown key, write "address" as a key under "server"`},
		},
		"duplicate keys, and what else is wrong": {
			file: header + "kind: PrebindConfiguration\nlogging:\n  level: info\n  level: loud\n  Format: json\n",
			want: []string{
				`kind: Duplicate value: "kind": the key stands more than once`,
				`logging.Format: Forbidden: unknown key, did you mean "format"?`,
				`logging.level: Duplicate value: "level": the key stands more than once`,
				`logging.level: Unsupported value: "loud": supported values: "debug", "info", "warn", "error"`,
			},
		},
		"many wrong types, and what else is wrong": {
			file: header + `
server: {address: 8888, opsAddress: true}
clientConnection: {qps: fast, burst: 1.5}
volumes: {bindTimeout: 10, staticCompletion: [a]}
plugins: {permit: Quota, reserve: [1], bind: {}}
logging: verbose
extra: 1
`,
			want: []string{
				"clientConnection.burst: Invalid value: 1.5: must be a whole number",
				`clientConnection.qps: Invalid value: "fast": must be a number`,
				"extra: Forbidden: unknown key, known ones here: apiVersion, kind, server, clientConnection, volumes, plugins, provisioningLimit, events, logging, tracing",
				`logging: Invalid value: "verbose": must be a mapping`,
				"plugins.bind: Invalid value: {}: must be a list of strings",
				`plugins.permit: Invalid value: "Quota": must be a list of strings`,
				"plugins.reserve: Invalid value: [1]: must be a list of strings",
				"server.address: Invalid value: 8888: must be a string",
				"server.opsAddress: Invalid value: true: must be a string",
				`volumes.bindTimeout: Invalid value: 10: must be a duration such as "90s" or "10m"`,
				`volumes.staticCompletion: Invalid value: ["a"]: must be a string`,
			},
		},
		"TLS with wrong keys and types": {
			file: header + "server: {insecure: 'no', tls: {certFile: c, keyFile: 1, clientCaFile: a, ca: b, allowedClientNames: x}}\n",
			want: []string{
				`server.insecure: Invalid value: "no": must be true or false`,
				"server.tls.allowedClientNames: Invalid value: \"x\": must be a list of strings",
				"server.tls.ca: Forbidden: unknown key, known ones here: certFile, keyFile, clientCAFile, allowedClientNames",
				`server.tls.clientCaFile: Forbidden: unknown key, did you mean "clientCAFile"?`,
				"server.tls.keyFile: Invalid value: 1: must be a string",
				"server.tls.keyFile: Required value: must be the path of the private key of certFile",
			},
		},
		"TLS that is no mapping": {
			file: header + "server: {tls: true}\n",
			want: []string{"server.tls: Invalid value: true: must be a mapping"},
		},
		"limits of wrong types": {
			file: header + "provisioningLimit: {perClass: ten, classes: {fast: 3, a.b: x}, class: 1}\nvolumes: {nominateWhileWaiting: 'yes'}\n",
			want: []string{
				`provisioningLimit.class: Forbidden: unknown key, known ones here: perClass, classes`,
				`provisioningLimit.classes: Invalid value: {"a.b":"x","fast":3}: must be a mapping of names to whole numbers`,
				`provisioningLimit.perClass: Invalid value: "ten": must be a whole number`,
				`volumes.nominateWhileWaiting: Invalid value: "yes": must be true or false`,
			},
		},
		"limits as a list": {
			file: header + "provisioningLimit: {classes: [fast]}\n",
			want: []string{`provisioningLimit.classes: Invalid value: ["fast"]: must be a mapping of names to whole numbers`},
		},
		"a class twice": {
			file: header + "provisioningLimit: {classes: {fast: 1, fast: 2}}\n",
			want: []string{`provisioningLimit.classes.fast: Duplicate value: "fast": the key stands more than once`},
		},
		"a duration without a unit": {
			file: header + "volumes: {bindTimeout: '10'}\n",
			want: []string{`volumes.bindTimeout: Invalid value: "10": must be a duration such as "90s" or "10m"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { wantMistakes(t, tc.file, config.Options{}, tc.want) })
	}
}

func TestLoadFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.LoadFile(missing, config.Options{})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("LoadFile(missing) = %v, want an error that names the file", err)
	}
	got, err := config.LoadFile("default.yaml", config.Options{})
	if err != nil {
		t.Fatalf("LoadFile(default.yaml): %v", err)
	}
	if diff := cmp.Diff(config.Default(), got); diff != "" {
		t.Errorf("LoadFile(default.yaml) (-want +got):\n%s", diff)
	}
}

// wantMistakes loads file and compares all mistakes.
func wantMistakes(t *testing.T, file string, opts config.Options, want []string) {
	t.Helper()
	cfg, err := config.Load([]byte(file), opts)
	if diff := cmp.Diff(want, config.Mistakes(err)); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
	if err != nil && cfg != nil {
		t.Error("a configuration came with the error")
	}
}
