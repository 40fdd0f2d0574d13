package chart_test

import (
	"fmt"
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// combination is one set of values of the matrix.
type combination struct {
	tls, mode string
	scheduler bool
	maximal   bool
}

func (c combination) String() string {
	size, second := "minimal", ""
	if c.maximal {
		size = "maximal"
	}
	if c.scheduler {
		second = " with second scheduler"
	}
	return fmt.Sprintf("%s %s tls %s%s", size, c.mode, c.tls, second)
}

// matrix is every set of values that makes sense: mode daemonset has no
// Service that a second scheduler could call.
func matrix() []combination {
	var all []combination
	for _, tls := range []string{"helm", "cert-manager", "existingSecret", "none"} {
		for _, maximal := range []bool{false, true} {
			all = append(all,
				combination{tls, "deployment", false, maximal},
				combination{tls, "deployment", true, maximal},
				combination{tls, "daemonset", false, maximal})
		}
	}
	return all
}

// values returns the values of a combination: what it needs and nothing else,
// or, on top of testdata/maximal.yaml, which sets every value.
func (c combination) values(t *testing.T) string {
	t.Helper()
	all := map[string]any{}
	if c.maximal {
		all = maximalValues(t)
	}
	over := map[string]any{
		"mode":      c.mode,
		"tls":       map[string]any{"type": c.tls},
		"scheduler": map[string]any{"enabled": c.scheduler},
	}
	if c.tls == "existingSecret" {
		over["tls"].(map[string]any)["existingSecret"] = map[string]any{"server": "my-server", "client": "my-client"}
	}
	if c.tls == "none" && (c.mode == "deployment" || c.maximal) { // not on loopback
		over["config"] = map[string]any{"server": map[string]any{"insecure": true}}
	}
	if c.maximal {
		server := all["config"].(map[string]any)["server"].(map[string]any)
		if c.tls == "none" {
			delete(server, "tls")
		}
		if c.mode == "daemonset" { // these need a Service
			over["serviceMonitor"] = map[string]any{"enabled": false}
			over["podMonitor"] = map[string]any{"enabled": true}
		}
	}
	overlay(all, over)
	text, err := yaml.Marshal(all)
	must(t, err)
	return string(text)
}

func maximalValues(t *testing.T) map[string]any {
	t.Helper()
	return readYAML(t, "testdata/maximal.yaml")
}

// readYAML reads a file that holds one object.
func readYAML(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	var fields map[string]any
	if err := yaml.UnmarshalStrict(text, &fields); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	return fields
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
