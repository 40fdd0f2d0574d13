package registration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

const (
	group      = configv1.GroupName
	apiVersion = group + "/v1"
	kind       = "KubeSchedulerConfiguration"
)

// file is a configuration file, decoded, and as the tree of its text.
type file struct {
	cfg  *configv1.KubeSchedulerConfiguration
	root *yaml.Node // the mapping
	tree *yaml.Node // the document around it
}

// decode reads data as strictly as kube-scheduler does. The error is an
// Aggregate with a line number in each of its parts.
func decode(data []byte) (*file, error) {
	tree, err := document(data)
	if err != nil {
		return nil, err
	}
	f := &file{tree: tree, root: tree.Content[0]}
	if f.root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: the file must be a mapping of keys to values, of kind %s", f.root.Line, kind)
	}
	if err := checkKind(f.root); err != nil {
		return nil, err
	}
	mistakes := append(duplicates(f.root, ""), durations(f.root)...)
	if len(mistakes) == 0 { // a mistyped duration ends decoding, without its place
		f.cfg = &configv1.KubeSchedulerConfiguration{}
		mistakes = decodeInto(f.root, data, f.cfg)
	}
	if len(mistakes) > 0 {
		return nil, utilerrors.NewAggregate(mistakes)
	}
	return f, nil
}

// document parses the one document of a file.
func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var found *yaml.Node
	for {
		var tree yaml.Node
		switch err := decoder.Decode(&tree); {
		case errors.Is(err, io.EOF):
			if found == nil {
				return nil, fmt.Errorf("the file is empty, want a %s", kind)
			}
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("parsing YAML: %w", err)
		case len(tree.Content) == 0 || tree.Content[0].Tag == "!!null":
			continue
		case found != nil:
			return nil, fmt.Errorf("line %d: a second YAML document; kube-scheduler reads the first one only", tree.Content[0].Line)
		}
		found = &tree
	}
}

// checkKind refuses what is no KubeSchedulerConfiguration of version v1.
func checkKind(root *yaml.Node) error {
	version, what := scalar(root, "apiVersion"), scalar(root, "kind")
	line := root.Line
	if node := child(root, "apiVersion"); node != nil {
		line = node.Line
	}
	switch {
	case what == kind && version == apiVersion:
		return nil
	case what == "Policy":
		return fmt.Errorf("line %d: a scheduler Policy, which kube-scheduler has not read since 1.23; write a %s of %s instead", line, kind, apiVersion)
	case what != kind:
		return fmt.Errorf("line %d: kind is %q, want %s (apiVersion %s)", line, what, kind, apiVersion)
	case version == group+"/v1beta3":
		return fmt.Errorf("line %d: apiVersion is %s, which kube-scheduler refuses since 1.29; write %s: nothing else differs, but that the plugin SelectorSpread is gone", line, version, apiVersion)
	case strings.HasPrefix(version, group+"/"):
		return fmt.Errorf("line %d: apiVersion is %s, an old version that kube-scheduler no longer reads; write %s, and rename what that version renamed (see the Scheduler Configuration page of the Kubernetes documentation)", line, version, apiVersion)
	default:
		return fmt.Errorf("line %d: apiVersion is %q, want %s", line, version, apiVersion)
	}
}

// decodeInto decodes into cfg, and the arguments of known plugins into their
// types, and returns what does not fit.
func decodeInto(root *yaml.Node, data []byte, cfg *configv1.KubeSchedulerConfiguration) []error {
	text, err := kyaml.YAMLToJSON(data)
	if err != nil {
		return []error{fmt.Errorf("parsing YAML: %w", err)}
	}
	mistakes := strictly(root, "", text, cfg)
	if len(mistakes) > 0 {
		return mistakes
	}
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return []error{fmt.Errorf("registering the types of %s: %w", apiVersion, err)}
	}
	for i, profile := range cfg.Profiles {
		for j, plugin := range profile.PluginConfig {
			args, err := scheme.New(configv1.SchemeGroupVersion.WithKind(plugin.Name + "Args"))
			if err != nil || len(plugin.Args.Raw) == 0 {
				continue // a plugin from elsewhere: its arguments are its own
			}
			at := fmt.Sprintf("profiles[%d].pluginConfig[%d].args", i, j)
			mistakes = append(mistakes, strictly(root, at, plugin.Args.Raw, args)...)
		}
	}
	return mistakes
}

// strictly decodes the JSON of what stands at a path.
func strictly(root *yaml.Node, at string, text []byte, into any) []error {
	strict, err := kjson.UnmarshalStrict(text, into)
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		path := join(at, mistyped.Field)
		return []error{fmt.Errorf("%s%s: a %s stands where kube-scheduler wants a value of type %s", line(root, path), path, mistyped.Value, mistyped.Type)}
	}
	if err != nil {
		return []error{fmt.Errorf("%s%w", line(root, at), err)}
	}
	var mistakes []error
	for _, err := range strict {
		located, ok := errors.AsType[kjson.FieldError](err)
		if !ok {
			mistakes = append(mistakes, err)
			continue
		}
		path := join(at, located.FieldPath())
		mistakes = append(mistakes, fmt.Errorf("%s%s: unknown field", line(root, path), path))
	}
	return mistakes
}

// durations checks the values that end decoding without naming their place.
func durations(root *yaml.Node) []error {
	var mistakes []error
	check := func(in *yaml.Node, at, key string) {
		node := child(in, key)
		if node == nil || node.Tag == "!!null" {
			return
		}
		if _, err := time.ParseDuration(node.Value); err != nil || node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
			mistakes = append(mistakes, fmt.Errorf("line %d: %s.%s: %q is no duration; write it with its unit, such as 11m or 30s", node.Line, at, key, node.Value))
		}
	}
	for i, extender := range items(child(root, "extenders")) {
		check(extender, fmt.Sprintf("extenders[%d]", i), "httpTimeout")
	}
	for _, key := range []string{"leaseDuration", "renewDeadline", "retryPeriod"} {
		check(child(root, "leaderElection"), "leaderElection", key)
	}
	return mistakes
}

// duplicates finds the keys that stand twice in one mapping.
func duplicates(node *yaml.Node, at string) []error {
	var mistakes []error
	switch node.Kind {
	case yaml.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, path := node.Content[i], join(at, node.Content[i].Value)
			if line, ok := first[key.Value]; ok && key.Tag != "!!merge" {
				mistakes = append(mistakes, fmt.Errorf("line %d: %s: the key stands in line %d already", key.Line, path, line))
			}
			first[key.Value] = key.Line
			mistakes = append(mistakes, duplicates(node.Content[i+1], path)...)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			mistakes = append(mistakes, duplicates(item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return mistakes
}
