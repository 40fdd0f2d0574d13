package binder_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/prebind/prebind/binder"
)

// permitOnly is a plugin of one stage.
type permitOnly struct{}

func (permitOnly) Name() string                               { return "permitOnly" }
func (permitOnly) Permit(context.Context, *binder.Call) error { return nil }

func newBinder(registry binder.Registry, enabled plugins, metrics prometheus.Registerer) error {
	_, err := binder.New(binder.Config{
		Logger: zap.NewNop(), Metrics: metrics, Registry: registry, Plugins: enabled, BindTimeout: time.Minute,
	})
	return err
}

func TestRegistryNamesWhatIsBuiltIn(t *testing.T) {
	if diff := cmp.Diff([]string{"DefaultBinder", "ProvisioningLimit", "VolumeBinding"}, binder.NewRegistry().Names()); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	if err := newBinder(binder.NewRegistry(), builtIn, prometheus.NewRegistry()); err != nil {
		t.Errorf("the default configuration: %v", err)
	}
}

func TestNewReportsAllMistakesInPluginsTogether(t *testing.T) {
	registry := binder.NewRegistry()
	registry["permitOnly"] = func(binder.Handle) (binder.Plugin, error) { return permitOnly{}, nil }
	registry["broken"] = func(binder.Handle) (binder.Plugin, error) { return nil, errors.New("no licence") }
	const known = "(known: [DefaultBinder ProvisioningLimit VolumeBinding broken permitOnly])"
	tests := map[string]struct {
		enabled plugins
		want    string
	}{
		"none": {nil, "plugins.bind: at least one plugin is needed"},
		"no bind plugin": {
			plugins{binder.Reserve: {"VolumeBinding"}}, "plugins.bind: at least one plugin is needed",
		},
		"an unknown name": {
			plugins{binder.Bind: {"DefaultBindr"}}, `plugins.bind: plugin "DefaultBindr" is not known ` + known,
		},
		"a stage that the plugin does not have": {
			plugins{binder.Bind: {"DefaultBinder"}, binder.PreBind: {"permitOnly"}}, `plugins.preBind: plugin "permitOnly" has no stage preBind`,
		},
		"a plugin that can not be built": {
			plugins{binder.Bind: {"DefaultBinder", "broken"}}, `plugins.bind: building plugin "broken": no licence`,
		},
		"a stage that does not exist": {
			plugins{binder.Bind: {"DefaultBinder"}, "prebind": {"VolumeBinding"}},
			"plugins.prebind: there is no such stage (stages: [permit reserve preBind bind postBind])",
		},
		"a plugin twice in a stage": {
			plugins{binder.Bind: {"DefaultBinder", "DefaultBinder"}}, `plugins.bind: plugin "DefaultBinder" stands twice`,
		},
		"a plugin of two stages that can not be built": {
			plugins{binder.Permit: {"broken"}, binder.Bind: {"DefaultBinder", "broken"}}, `plugins.permit: building plugin "broken": no licence`,
		},
		"one mistake in each stage": {
			plugins{
				binder.Permit: {"VolumeBinding"}, binder.Reserve: {"permitOnly"}, binder.PreBind: {"x"},
				binder.Bind: {"broken", "DefaultBinder"}, binder.PostBind: {"DefaultBinder"},
			},
			`plugins.permit: plugin "VolumeBinding" has no stage permit
plugins.reserve: plugin "permitOnly" has no stage reserve
plugins.preBind: plugin "x" is not known ` + known + `
plugins.bind: building plugin "broken": no licence
plugins.postBind: plugin "DefaultBinder" has no stage postBind`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := newBinder(registry, tc.enabled, prometheus.NewRegistry()); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewBuildsAPluginOnceForAllItsStages(t *testing.T) {
	built := 0
	registry := binder.Registry{"a": func(binder.Handle) (binder.Plugin, error) { built++; return &spy{name: "a"}, nil }}
	if err := newBinder(registry, everywhere("a"), prometheus.NewRegistry()); err != nil || built != 1 {
		t.Errorf("built %d times, error %v", built, err)
	}
}

func TestNewFailsWhereItsMetricsAreRegisteredAlready(t *testing.T) {
	metrics := prometheus.NewRegistry()
	if err := newBinder(binder.NewRegistry(), builtIn, metrics); err != nil {
		t.Fatal(err)
	}
	err := newBinder(binder.NewRegistry(), builtIn, metrics)
	if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); !ok {
		t.Errorf("error %v", err)
	}
}
