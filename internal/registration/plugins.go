package registration

import (
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

const (
	volumeBinding = "VolumeBinding"
	defaultBinder = "DefaultBinder"
	everyPlugin   = "*"
)

// point is an extension point at which VolumeBinding has something to do.
type point string

const (
	preFilter point = "preFilter"
	filter    point = "filter"
	preScore  point = "preScore"
	score     point = "score"
	reserve   point = "reserve"
	preBind   point = "preBind"
)

// bindingPoints are those that prebind takes over in mode bind; nodePoints
// those that it takes over in mode full as well. At preFilter the plugin may stay
// there: it looks at the pod alone, once, and nobody else finds as good words for
// a claim that is missing or unbound, or has the scheduler wait for the events that
// mend it.
func bindingPoints() []point { return []point{reserve, preBind} }
func nodePoints() []point    { return []point{filter, preScore, score} }
func fullPoints() []point    { return append(nodePoints(), bindingPoints()...) }
func allPoints() []point     { return append([]point{preFilter}, fullPoints()...) }

// setAt returns a profile's lists for one point.
func setAt(plugins *configv1.Plugins, at point) configv1.PluginSet {
	if plugins == nil {
		return configv1.PluginSet{}
	}
	switch at {
	case preFilter:
		return plugins.PreFilter
	case filter:
		return plugins.Filter
	case preScore:
		return plugins.PreScore
	case score:
		return plugins.Score
	case reserve:
		return plugins.Reserve
	default:
		return plugins.PreBind
	}
}

// runs tells whether a default plugin runs at a point, from the point's lists
// and the profile's multiPoint: an enabled list goes before a disabled one, and
// the point's own lists before multiPoint.
//
// Source: pkg/scheduler/apis/config/v1 mergePluginSet, and
// pkg/scheduler/framework/runtime expandMultiPointPlugins.
func runs(name string, plugins *configv1.Plugins, own configv1.PluginSet) bool {
	switch {
	case named(own.Enabled, name):
		return true
	case named(own.Disabled, name), named(own.Disabled, everyPlugin):
		return false
	case plugins == nil, named(plugins.MultiPoint.Enabled, name):
		return true
	default:
		return !named(plugins.MultiPoint.Disabled, name) && !named(plugins.MultiPoint.Disabled, everyPlugin)
	}
}

func named(list []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p configv1.Plugin) bool { return p.Name == name })
}

// shape is what is left of VolumeBinding in one profile.
type shape struct {
	mode Mode
	on   map[point]bool
}

func shapeOf(plugins *configv1.Plugins) shape {
	s := shape{mode: ModeMixed, on: map[point]bool{}}
	for _, at := range allPoints() {
		s.on[at] = runs(volumeBinding, plugins, setAt(plugins, at))
	}
	switch {
	case s.on[reserve] != s.on[preBind]:
	case s.on[reserve] && s.on[filter]:
		s.mode = ModeStock
	case s.on[reserve]:
	case s.on[filter]:
		s.mode = ModeBind
	default:
		s.mode = ModeFull
	}
	return s
}
