package binder

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/volumes"
)

// Stage names a stage of the binding cycle, as in the configuration.
type Stage string

// The stages that have plugins, in the order in which they run.
const (
	Permit   Stage = "permit"
	Reserve  Stage = "reserve"
	PreBind  Stage = "preBind"
	Bind     Stage = "bind"
	PostBind Stage = "postBind"
)

// Stages lists all stages in order.
func Stages() []Stage { return []Stage{Permit, Reserve, PreBind, Bind, PostBind} }

// title is how kube-scheduler writes the stage in its errors.
func (s Stage) title() string {
	switch s {
	case Permit:
		return "Permit"
	case Reserve:
		return "Reserve"
	case PreBind:
		return "PreBind"
	case PostBind:
		return "PostBind"
	default:
		return "Bind"
	}
}

// Handle is what plugins are built with.
type Handle struct {
	Client  kubernetes.Interface
	Caches  *volumes.Caches
	Volumes *volumes.Prebinder
}

// Factory builds a plugin. It is called once per process and plugin name.
type Factory func(h Handle) (Plugin, error)

// Registry maps plugin names to factories, like kube-scheduler's.
type Registry map[string]Factory

// NewRegistry returns the built-in plugins. A new plugin is one file and one
// line here.
func NewRegistry() Registry {
	return Registry{
		VolumeBindingName: newVolumeBinding,
		DefaultBinderName: newDefaultBinder,
	}
}

// Names returns the registered names, sorted.
func (r Registry) Names() []string { return slices.Sorted(maps.Keys(r)) }

// pipeline is the plugins of each stage, in order.
type pipeline struct {
	permit   []PermitPlugin
	reserve  []ReservePlugin
	preBind  []PreBindPlugin
	bind     []BindPlugin
	postBind []PostBindPlugin
}

// build makes the pipeline of the plugins named. All mistakes are returned
// together.
func (r Registry) build(enabled map[Stage][]string, h Handle) (*pipeline, error) {
	p := &pipeline{}
	built := map[string]Plugin{}
	var errs []error
	for _, stage := range Stages() {
		for _, name := range enabled[stage] {
			plugin, err := r.get(name, h, built)
			if err == nil && !p.add(stage, plugin) {
				err = fmt.Errorf("plugin %q has no stage %s", name, stage)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("plugins.%s: %w", stage, err))
			}
		}
	}
	if len(errs) == 0 && len(p.bind) == 0 {
		errs = append(errs, errors.New("plugins.bind: at least one plugin is needed"))
	}
	return p, errors.Join(errs...)
}

func (r Registry) get(name string, h Handle, built map[string]Plugin) (Plugin, error) {
	if plugin, ok := built[name]; ok {
		return plugin, nil
	}
	factory, ok := r[name]
	if !ok {
		return nil, fmt.Errorf("plugin %q is not known (known: %v)", name, r.Names())
	}
	plugin, err := factory(h)
	if err != nil {
		return nil, fmt.Errorf("building plugin %q: %w", name, err)
	}
	built[name] = plugin
	return plugin, nil
}

// add appends the plugin to the stage, if it implements it.
func (p *pipeline) add(stage Stage, plugin Plugin) bool {
	switch stage {
	case Permit:
		return appendTo(&p.permit, plugin)
	case Reserve:
		return appendTo(&p.reserve, plugin)
	case PreBind:
		return appendTo(&p.preBind, plugin)
	case PostBind:
		return appendTo(&p.postBind, plugin)
	default:
		return appendTo(&p.bind, plugin)
	}
}

func appendTo[T Plugin](list *[]T, plugin Plugin) bool {
	typed, ok := plugin.(T)
	if ok {
		*list = append(*list, typed)
	}
	return ok
}
