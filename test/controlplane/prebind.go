package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/test/programs"
)

// PrebindOptions say how a prebind process runs. The zero value is a good one.
type PrebindOptions struct {
	// Name tells several prebinds of one control plane apart. Empty: "prebind".
	Name string
	// BindTimeout is volumes.bindTimeout. Zero: prebind's default.
	BindTimeout time.Duration
	// LogLevel is logging.level. Empty: "debug".
	LogLevel string
	// TLS makes the verbs HTTPS. Nil: plain HTTP.
	TLS *ServerTLS
	// Config is YAML laid over the generated configuration, key by key.
	Config string
	// APIServer replaces the API server's address, for a proxy that disturbs
	// the connection, as in https://127.0.0.1:12345. Its certificate is not
	// checked. Empty: the API server.
	APIServer string
	// ClientConfig replaces the identity. Nil: a token of ServiceAccount prebind
	// in kube-system, which examples/rbac.yaml creates.
	ClientConfig *rest.Config
	// Race runs the program built with the race detector.
	Race bool
	// Unready returns from StartPrebind as soon as the process runs, for tests
	// in which it cannot become ready.
	Unready bool
}

// Prebind is a running prebind, with the ports and files it keeps when it is
// killed and started again.
type Prebind struct {
	*Process
	url, opsURL string
}

// URL returns where the extender verbs are served, as in http://127.0.0.1:20001.
func (p *Prebind) URL() string { return p.url }

// OpsURL returns where /livez, /readyz and /metrics are served.
func (p *Prebind) OpsURL() string { return p.opsURL }

// Logs returns what it has logged so far, one map a line. Lines that are no
// JSON (a panic, say) have the key "text" alone.
func (p *Prebind) Logs() ([]map[string]any, error) {
	text, err := os.ReadFile(p.Log())
	if err != nil {
		return nil, fmt.Errorf("reading prebind's log: %w", err)
	}
	var lines []map[string]any
	for line := range bytes.Lines(text) {
		fields := map[string]any{}
		if err := json.Unmarshal(line, &fields); err != nil {
			fields = map[string]any{"text": string(bytes.TrimSpace(line))}
		}
		lines = append(lines, fields)
	}
	return lines, nil
}

// StartPrebind builds prebind if need be, applies examples/rbac.yaml, runs
// `prebind serve` on free ports and returns when its /readyz answers 200. The
// log is JSON at level debug unless opts say otherwise. ControlPlane.Stop stops
// it, and reports it if it does not end in time.
func (cp *ControlPlane) StartPrebind(ctx context.Context, opts PrebindOptions) (*Prebind, error) {
	if opts.Name == "" {
		opts.Name = "prebind"
	}
	if old := cp.prebindNamed(opts.Name); old != nil && old.Running() {
		return nil, fmt.Errorf("starting %s: one of that name is running", opts.Name)
	}
	program := programs.Prebind
	if opts.Race {
		program = programs.PrebindRace
	}
	if err := cp.needProgram(ctx, program); err != nil {
		return nil, err
	}
	kubeconfig, err := cp.prebindKubeconfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", opts.Name, err)
	}
	var prebind *Prebind
	err = cp.step(ctx, opts.Name, func(ctx context.Context) error {
		return withFreePorts(ctx, 2, func(ports []int) error {
			config, err := opts.writeConfig(cp.dir, ports[0], ports[1])
			if err != nil {
				return err
			}
			prebind = cp.newPrebind(opts, program, config, kubeconfig, ports)
			return prebind.Start(ctx)
		})
	})
	if err != nil {
		return nil, err
	}
	return prebind, nil
}

// newPrebind describes a prebind process, in place of one with the same name.
func (cp *ControlPlane) newPrebind(opts PrebindOptions, program programs.Program, config, kubeconfig string, ports []int) *Prebind {
	p := &Prebind{url: "http://" + address(ports[0]), opsURL: "http://" + address(ports[1])}
	if opts.TLS != nil {
		p.url = "https://" + address(ports[0])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ready := func(ctx context.Context) error { return get(ctx, client, p.opsURL+"/readyz") }
	if opts.Unready {
		ready = func(context.Context) error { return nil }
	}
	p.Process = cp.process(opts.Name, program, []string{"serve", "--config", config, "--kubeconfig", kubeconfig}, ready)
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.prebindLogs++
	p.logFile = filepath.Join(cp.dir, fmt.Sprintf("%s-%d.log", opts.Name, cp.prebindLogs))
	cp.prebinds[opts.Name] = p
	return p
}

func (cp *ControlPlane) prebindNamed(name string) *Prebind {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.prebinds[name]
}

// prebindKubeconfig writes the kubeconfig that prebind gets.
func (cp *ControlPlane) prebindKubeconfig(ctx context.Context, opts PrebindOptions) (string, error) {
	root, err := programs.Root()
	if err != nil {
		return "", err
	}
	if err := cp.ApplyManifests(ctx, filepath.Join(root, "examples", "rbac.yaml")); err != nil {
		return "", err
	}
	config := opts.ClientConfig
	if config == nil {
		if config, err = cp.ServiceAccountConfig(ctx, "kube-system", "prebind"); err != nil {
			return "", err
		}
	}
	if opts.APIServer != "" {
		config = rest.CopyConfig(config)
		config.Host, config.TLSClientConfig = opts.APIServer, rest.TLSClientConfig{Insecure: true}
	}
	return cp.writeKubeconfig(opts.Name, config)
}

// writeConfig writes the configuration file that o describes.
func (o PrebindOptions) writeConfig(dir string, port, opsPort int) (string, error) {
	level := o.LogLevel
	if level == "" {
		level = "debug"
	}
	server := map[string]any{"address": address(port), "opsAddress": address(opsPort)}
	if o.TLS != nil {
		server["tls"] = o.TLS
	}
	config := map[string]any{
		"apiVersion": "prebind.dev/v1alpha1",
		"kind":       "PrebindConfiguration",
		"server":     server,
		"logging":    map[string]any{"level": level, "format": "json"},
	}
	if o.BindTimeout != 0 {
		config["volumes"] = map[string]any{"bindTimeout": o.BindTimeout.String()}
	}
	var over map[string]any
	if err := yaml.Unmarshal([]byte(o.Config), &over); err != nil {
		return "", fmt.Errorf("reading the configuration to lay over: %w", err)
	}
	overlay(config, over)
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, o.Name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// overlay lays over on base, key by key where both hold objects.
func overlay(base, over map[string]any) {
	for key, value := range over {
		below, isObject := base[key].(map[string]any)
		above, overObject := value.(map[string]any)
		if isObject && overObject {
			overlay(below, above)
			continue
		}
		base[key] = value
	}
}
