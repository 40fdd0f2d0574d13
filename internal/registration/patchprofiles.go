package registration

import (
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// mark is the comment beside what Patch has disabled.
const mark = "# prebind"

// patchProfiles disables VolumeBinding where the mode wants it, in every
// profile, and lets it be where it does not.
func (f *file) patchProfiles(mode Mode) error {
	off := map[Mode][]point{ModeBind: bindingPoints(), ModeFull: fullPoints()}[mode]
	if len(f.cfg.Profiles) == 0 {
		if len(off) == 0 {
			return nil
		}
		f.cfg.Profiles = []configv1.KubeSchedulerProfile{{}}
		profile := &yaml.Node{Kind: yaml.MappingNode}
		set(profile, "schedulerName", text(defaultSchedulerName))
		list := open(f.root, "profiles", yaml.SequenceNode)
		list.Content = append(list.Content, profile)
	}
	for i, node := range items(child(f.root, "profiles")) {
		if err := f.patchProfile(node, i, off); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) patchProfile(profile *yaml.Node, i int, off []point) error {
	plugins := f.cfg.Profiles[i].Plugins
	for _, p := range off {
		if named(setAt(plugins, p).Enabled, volumeBinding) {
			where := fmt.Sprintf("%s.plugins.%s.enabled", profilePath(i), p)
			return fmt.Errorf("%s%s names VolumeBinding, which goes before any disabled list; take it out by hand, then patch", line(f.root, where), where)
		}
	}
	before := shapeOf(plugins)
	for _, points := range [][]point{nodePoints(), bindingPoints()} {
		if !slices.Contains(off, points[0]) && restore(profile, points) && points[0] == filter {
			restore(profile, []point{preFilter}) // or they would find nothing to work on
		}
	}
	for _, p := range off {
		if before.on[p] {
			block(f.root, child(f.root, "profiles"))
			disable(profile, p)
		}
	}
	return nil
}

// disable puts VolumeBinding into the disabled list of a point.
func disable(profile *yaml.Node, p point) {
	plugins := open(profile, "plugins", yaml.MappingNode)
	lists := open(plugins, string(p), yaml.MappingNode)
	disabled := open(lists, "disabled", yaml.SequenceNode)
	block(profile, plugins, lists, disabled)
	name := text(volumeBinding)
	name.LineComment = mark
	item := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("name"), name}}
	disabled.Content = append(disabled.Content, item)
}

// restore takes VolumeBinding out of the disabled lists of the points: where it
// is marked, or, when it is marked at none of them, everywhere if it stands at
// all of them, which only a registration does. It tells whether it has.
func restore(profile *yaml.Node, points []point) (restored bool) {
	marked, standing := false, 0
	for _, p := range points {
		if i, list := disabledAt(profile, p); i >= 0 {
			standing++
			marked = marked || isMarked(list.Content[i])
		}
	}
	if !marked && standing < len(points) {
		return false
	}
	for _, p := range points {
		if i, list := disabledAt(profile, p); i >= 0 && (!marked || isMarked(list.Content[i])) {
			list.Content = slices.Delete(list.Content, i, i+1)
			tidy(profile, "plugins", string(p), "disabled")
			restored = true
		}
	}
	return restored
}

// disabledAt finds VolumeBinding in the disabled list of a point; -1 if it is
// not in there.
func disabledAt(profile *yaml.Node, p point) (int, *yaml.Node) {
	list := child(child(child(profile, "plugins"), string(p)), "disabled")
	return slices.IndexFunc(items(list), func(item *yaml.Node) bool { return scalar(item, "name") == volumeBinding }), list
}

func isMarked(item *yaml.Node) bool {
	return strings.TrimSpace(child(item, "name").LineComment) == mark
}

// tidy removes what has become empty along a path, from its end.
func tidy(node *yaml.Node, path ...string) {
	if len(path) > 1 {
		tidy(child(node, path[0]), path[1:]...)
	}
	if inner := child(node, path[0]); inner != nil && inner.Kind != yaml.ScalarNode && len(inner.Content) == 0 {
		remove(node, path[0])
	}
}
