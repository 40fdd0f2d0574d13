package binder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	// Metrics is where a plugin may register metrics of its own.
	Metrics prometheus.Registerer
	// ProvisioningLimits are for the plugin of that name.
	ProvisioningLimits ProvisioningLimits
	// BindTimeout is how long a call may take.
	BindTimeout time.Duration
}

// Factory builds a plugin. It is called once per process and plugin name.
type Factory func(h Handle) (Plugin, error)

// Registry maps plugin names to factories, like kube-scheduler's.
type Registry map[string]Factory

// NewRegistry returns the built-in plugins. A new plugin is one file and one
// line here.
func NewRegistry() Registry {
	return Registry{
		VolumeBindingName:     newVolumeBinding,
		DefaultBinderName:     newDefaultBinder,
		ProvisioningLimitName: newProvisioningLimit,
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
	built := map[string]result{}
	var errs []error
	for _, stage := range slices.Sorted(maps.Keys(enabled)) {
		if !slices.Contains(Stages(), stage) {
			errs = append(errs, fmt.Errorf("plugins.%s: there is no such stage (stages: %v)", stage, Stages()))
		}
	}
	for _, stage := range Stages() {
		for i, name := range enabled[stage] {
			err := r.addTo(p, stage, name, h, built)
			if slices.Contains(enabled[stage][:i], name) {
				err = fmt.Errorf("plugin %q stands twice", name)
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

// result is what a factory answered.
type result struct {
	plugin Plugin
	err    error
}

// addTo appends the plugin, built if it was not yet, to the stage.
func (r Registry) addTo(p *pipeline, stage Stage, name string, h Handle, built map[string]result) error {
	factory, ok := r[name]
	if !ok {
		return fmt.Errorf("plugin %q is not known (known: %v)", name, r.Names())
	}
	made, ok := built[name]
	if !ok {
		made.plugin, made.err = factory(h)
		built[name] = made
	}
	switch {
	case made.err != nil && ok:
		return nil // reported for its first stage
	case made.err != nil:
		return fmt.Errorf("building plugin %q: %w", name, made.err)
	case !p.add(stage, made.plugin):
		return fmt.Errorf("plugin %q has no stage %s", name, stage)
	}
	return nil
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
