package registration

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	yaml "go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// Patch changes the registration in a KubeSchedulerConfiguration to what o says
// and leaves everything else: every key and value, other extenders, the lists of
// other plugins. Comments stay as well, unless the file has YAML anchors; lines
// may be indented anew. A file that needs no change comes back as it is.
//
// An entry of prebind that is there is updated in place. What Patch disables in
// a profile it marks with a comment, "# prebind", so that a later Patch to
// ModeStock or ModeNone takes out that and nothing else; without the mark it
// takes VolumeBinding out of both reserve and preBind, or out of all points if
// it is disabled at all of them.
//
// The error tells what is wrong with the file, with lines, or what stands in the
// way: another extender that binds, or VolumeBinding in a point's own enabled
// list.
func Patch(data []byte, o Options) ([]byte, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	if len(o.SchedulerNames) > 0 {
		return nil, errors.New("scheduler names are not for patching: every profile of the file is patched, since extenders serve all of them")
	}
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	if f, err = f.plain(); err != nil {
		return nil, err
	}
	before, err := f.text()
	if err != nil {
		return nil, err
	}
	if err := f.patchProfiles(o.Mode); err != nil {
		return nil, err
	}
	if err := f.patchExtenders(o); err != nil {
		return nil, err
	}
	if o.KubeconfigPath != "" && f.cfg.ClientConnection.Kubeconfig == "" {
		set(open(f.root, "clientConnection", yaml.MappingNode), "kubeconfig", text(o.KubeconfigPath))
	}
	after, err := f.text()
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		after = data
	}
	if err := verify(after, o.Mode); err != nil {
		return nil, err
	}
	return after, nil
}

// verify makes sure that a patched file does what the mode says. Other lists of
// a profile, such as those of multiPoint, may stand against it.
func verify(data []byte, mode Mode) error {
	f, err := decode(data)
	if err != nil {
		return fmt.Errorf("checking the patched file: %w", err)
	}
	if mode != ModeBind && mode != ModeFull {
		return nil // what is off now is off by the user's own wish
	}
	for i, profile := range f.cfg.Profiles {
		if shapeOf(profile.Plugins).mode != mode {
			return fmt.Errorf("profiles[%d].plugins: other lists of this profile disable VolumeBinding as well, or \"*\", so that it cannot be brought to mode %s; take it out there by hand, then patch", i, mode)
		}
	}
	return nil
}

// plain returns the file without anchors, aliases and merge keys, in which one
// change would show up in several places.
func (f *file) plain() (*file, error) {
	if !hasAnchors(f.root) {
		return f, nil
	}
	data, err := f.text()
	if err != nil {
		return nil, err
	}
	json, err := kyaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("expanding anchors: %w", err)
	}
	if data, err = kyaml.JSONToYAML(json); err != nil {
		return nil, fmt.Errorf("expanding anchors: %w", err)
	}
	return decode(data)
}

func hasAnchors(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		return true
	}
	return slices.ContainsFunc(node.Content, hasAnchors)
}

// text writes the tree.
func (f *file) text() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(f.tree); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return out.Bytes(), nil
}
