package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/test/programs"
)

// Mode is how prebind is registered with the scheduler.
type Mode string

const (
	// ModeNone is kube-scheduler as it comes: no extender, volumes bound by its
	// own plugin.
	ModeNone Mode = ""
	// ModeStock leaves the profile as it is and adds the bind extender: the
	// scheduler's plugin has bound the volumes when prebind is called.
	ModeStock Mode = "stock"
	// ModeBind disables the scheduler's VolumeBinding plugin at reserve and
	// preBind and adds the bind extender: examples/scheduler-config.yaml.
	ModeBind Mode = "bind"
	// ModeFull disables the plugin at all points but preFilter and adds two
	// extenders, one that filters and scores, and one that binds.
	ModeFull Mode = "full"
)

// SchedulerOptions say how kube-scheduler is configured.
type SchedulerOptions struct {
	Mode Mode
	// URL is where the extender serves, without "/v1". Required but in ModeNone.
	URL string
	// TLS is the extender's tlsConfig, for a URL with https. Nil: none.
	TLS *ExtenderTLS
	// HTTPTimeout ends a bind call. Zero: 11 minutes, as in the example.
	HTTPTimeout time.Duration
	// WholeNodes makes the scheduler send nodes, not their names, in ModeFull.
	WholeNodes bool
	// AllNodes sets percentageOfNodesToScore to 100 in ModeFull. Else the scheduler
	// looks at a part of a large cluster's nodes.
	AllNodes bool
	// PodInitialBackoffSeconds and PodMaxBackoffSeconds are the pauses before a
	// pod that failed is tried again. Zero: the defaults, 1 and 10.
	PodInitialBackoffSeconds, PodMaxBackoffSeconds int64
	// ClientQPS is the scheduler's request rate; the burst is twice that. Zero:
	// the defaults, 50 and 100.
	ClientQPS int64

	kubeconfig    string
	schedulerName string
}

// config returns examples/scheduler-config.yaml, changed as o says: what users
// are told to apply is what the tests run.
func (o SchedulerOptions) config() ([]byte, error) {
	root, err := programs.Root()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, "examples", "scheduler-config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading the scheduler's configuration %s: %w", path, err)
	}
	if err := o.apply(config); err != nil {
		return nil, fmt.Errorf("changing the scheduler's configuration %s: %w", path, err)
	}
	return yaml.Marshal(config)
}

func (o SchedulerOptions) apply(config map[string]any) error {
	set := func(value any, path ...string) error { return unstructured.SetNestedField(config, value, path...) }
	if err := set(o.kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return err
	}
	if err := set(false, "leaderElection", "leaderElect"); err != nil {
		return err
	}
	if o.ClientQPS != 0 {
		if err := errors.Join(set(o.ClientQPS, "clientConnection", "qps"), set(2*o.ClientQPS, "clientConnection", "burst")); err != nil {
			return err
		}
	}
	if o.PodInitialBackoffSeconds != 0 {
		config["podInitialBackoffSeconds"] = o.PodInitialBackoffSeconds
	}
	if o.PodMaxBackoffSeconds != 0 {
		config["podMaxBackoffSeconds"] = o.PodMaxBackoffSeconds
	}
	profile, err := only(config, "profiles")
	if err != nil {
		return err
	}
	profile["schedulerName"] = o.schedulerName
	extender, err := only(config, "extenders")
	if err != nil {
		return err
	}
	extender["urlPrefix"] = o.URL + "/v1"
	if o.TLS != nil {
		extender["enableHTTPS"], extender["tlsConfig"] = true, o.TLS
	}
	if o.HTTPTimeout != 0 {
		extender["httpTimeout"] = o.HTTPTimeout.String()
	}
	switch o.Mode {
	case ModeBind:
	case ModeFull:
		o.applyFull(config, profile, extender)
	case ModeStock:
		delete(profile, "plugins")
	case ModeNone:
		delete(profile, "plugins")
		delete(config, "extenders")
	default:
		return fmt.Errorf("unknown mode %q", o.Mode)
	}
	if o.Mode != ModeNone && o.URL == "" {
		return fmt.Errorf("mode %s needs the extender's URL", o.Mode)
	}
	return nil
}

// applyFull hands all that concerns volumes to prebind.
func (o SchedulerOptions) applyFull(config, profile, bind map[string]any) {
	plugins := map[string]any{}
	for _, point := range []string{"filter", "preScore", "score", "reserve", "preBind"} {
		plugins[point] = map[string]any{"disabled": []any{map[string]any{"name": "VolumeBinding"}}}
	}
	profile["plugins"] = plugins
	if o.AllNodes {
		config["percentageOfNodesToScore"] = 100
	}
	filter := maps.Clone(bind)
	delete(filter, "bindVerb")
	filter["filterVerb"], filter["prioritizeVerb"], filter["weight"] = "filter", "prioritize", 1
	filter["httpTimeout"], filter["nodeCacheCapable"] = "5s", !o.WholeNodes
	config["extenders"] = []any{filter, bind}
}

// only returns the one element of a list of objects.
func only(config map[string]any, key string) (map[string]any, error) {
	list, _ := config[key].([]any)
	if len(list) != 1 {
		return nil, fmt.Errorf("%s must have one element, it has %d", key, len(list))
	}
	object, ok := list[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s[0] is no object", key)
	}
	return object, nil
}
