package registration

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// load reads a file as kube-scheduler does with --config: strictly, with its
// defaults, into its internal type; and validates it.
func load(text []byte) (*config.KubeSchedulerConfiguration, error) {
	object, version, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("decoding: it is a %T", object)
	}
	cfg.APIVersion = version.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, fmt.Errorf("validating: %w", err)
	}
	return cfg, nil
}

// build makes the scheduler of a file, which is not run.
func build(t testing.TB, text []byte) (*scheduler.Scheduler, error) {
	cfg, err := load(text)
	if err != nil {
		return nil, err
	}
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	made, err := scheduler.New(t.Context(), client, informers.NewSharedInformerFactory(client, 0), nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(cfg.APIVersion), scheduler.WithProfiles(cfg.Profiles...), scheduler.WithExtenders(cfg.Extenders...))
	if err != nil {
		return nil, fmt.Errorf("building the scheduler: %w", err)
	}
	return made, nil
}

// points returns where VolumeBinding runs in a profile of a scheduler.
func points(made *scheduler.Scheduler, name string) map[string]bool {
	plugins := made.Profiles[name].ListPlugins()
	on := map[string]bool{}
	for point, set := range map[string]config.PluginSet{
		"preFilter": plugins.PreFilter, "filter": plugins.Filter, "preScore": plugins.PreScore,
		"score": plugins.Score, "reserve": plugins.Reserve, "preBind": plugins.PreBind,
	} {
		if slices.ContainsFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == "VolumeBinding" }) {
			on[point] = true
		}
	}
	return on
}
