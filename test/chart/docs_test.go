package chart_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/config"
)

// The table in the chart's README has every value, with its default.
func TestDocsHaveEveryValue(t *testing.T) {
	values := readYAML(t, filepath.Join(shared.chart, "values.yaml"))
	text, err := os.ReadFile(filepath.Join(shared.chart, "README.md"))
	must(t, err)
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `(.*?)` \\| (.+) \\|$").FindAllStringSubmatch(string(text), -1) {
		path, value := row[1], row[2]
		documented[path] = true
		have, found := at(values, strings.Split(path, "."))
		if !found {
			t.Errorf("the README has %s, values.yaml does not", path)
			continue
		}
		var want any
		if err := json.Unmarshal([]byte(value), &want); err != nil {
			t.Errorf("the README's default of %s is no JSON: %s", path, value)
			continue
		}
		if !equal(t, have, want) {
			t.Errorf("the README's default of %s is %s, values.yaml has %v", path, value, have)
		}
	}
	for _, path := range leaves(values, "") {
		if !slices.ContainsFunc(prefixes(path), func(p string) bool { return documented[p] }) {
			t.Errorf("values.yaml has %s, the README does not", path)
		}
	}
}

// testdata/maximal.yaml is what it says.
func TestMaximalValuesAreMaximal(t *testing.T) {
	maximal := readYAML(t, "testdata/maximal.yaml")
	values := readYAML(t, filepath.Join(shared.chart, "values.yaml"))
	set := []string{ // what matrix sets, or what the other objects need
		"mode", "tls.type", "scheduler.enabled", "serviceAccount.create", "rbac.create", "podDisruptionBudget.enabled", "networkPolicy.enabled",
		"podMonitor.enabled", "podSecurityContext", "securityContext",
	}
	for _, path := range leaves(values, "") {
		if slices.ContainsFunc(prefixes(path), func(p string) bool { return slices.Contains(set, p) }) {
			continue
		}
		keys := strings.Split(path, ".")
		have, found := at(maximal, keys)
		fallback, _ := at(values, keys)
		if !found && !slices.Contains(keys, "nodeSelector") {
			t.Errorf("maximal.yaml lacks %s", path)
		} else if found && equal(t, have, fallback) {
			t.Errorf("maximal.yaml has %s at its default %v", path, have)
		}
	}
}

// The chart's schema takes every key that prebind's configuration has, and
// prebind takes what the chart makes of it.
func TestDocsOfConfigurationAndSchemaAgree(t *testing.T) {
	var all map[string]any
	must(t, yaml.Unmarshal([]byte(config.DefaultYAML()), &all))
	server := all["server"].(map[string]any)
	delete(server, "address") // loopback, which the chart refuses for good reasons
	delete(server, "opsAddress")
	delete(server, "insecure")
	delete(server, "tls")
	values, err := yaml.Marshal(map[string]any{"config": all})
	must(t, err)
	manifest, err := helms()[0].template(t.Context(), string(values))
	must(t, err)
	prebindConfig(t, parse(t, manifest), "prebind")
}

// leaves lists the paths of what is no object, or an empty one.
func leaves(fields map[string]any, prefix string) []string {
	var paths []string
	for key, value := range fields {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			paths = append(paths, leaves(below, path)...)
			continue
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// prefixes lists a path and the paths above it.
func prefixes(path string) []string {
	var all []string
	for i, r := range path {
		if r == '.' {
			all = append(all, path[:i])
		}
	}
	return append(all, path)
}

// at returns the value at a path.
func at(fields map[string]any, keys []string) (value any, found bool) {
	value, found = fields[keys[0]]
	if !found || len(keys) == 1 {
		return value, found
	}
	below, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	return at(below, keys[1:])
}

// equal compares values as JSON, whatever their Go types.
func equal(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	must(t, err)
	right, err := json.Marshal(b)
	must(t, err)
	return bytes.Equal(left, right)
}
