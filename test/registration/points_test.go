package registration

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/internal/registration"
)

// TestPointsAlike draws lists of plugins, lets kube-scheduler work out where
// VolumeBinding still runs, and wants Check to come to the same mode and to the
// same faults.
func TestPointsAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plugins := map[string]any{}
		for _, point := range []string{"multiPoint", "preFilter", "filter", "preScore", "score", "reserve", "preBind"} {
			set := map[string]any{}
			disabled := rapid.SampledFrom([]string{"", "", "VolumeBinding", "*", "ImageLocality"}).Draw(rt, point+" disabled")
			if disabled != "" {
				set["disabled"] = names(disabled)
			}
			switch {
			case rapid.IntRange(0, 3).Draw(rt, point+" enabled?") == 0:
				set["enabled"] = names("VolumeBinding")
			case point == "multiPoint" && disabled == "*": // what no scheduler can do without
				set["enabled"] = names("PrioritySort", "DefaultBinder")
			}
			if list, ok := set["enabled"].([]any); ok && point == "multiPoint" && disabled == "*" && len(list) == 1 {
				set["enabled"] = append(list, names("PrioritySort", "DefaultBinder")...)
			}
			if len(set) > 0 {
				plugins[point] = set
			}
		}
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
			"profiles":  []any{map[string]any{"schedulerName": "default-scheduler", "plugins": plugins}},
			"extenders": []any{map[string]any{"urlPrefix": "http://127.0.0.1:8888/v1", "bindVerb": "bind", "httpTimeout": "11m"}},
		})
		if err != nil {
			rt.Fatal(err)
		}
		made, err := build(t, text)
		if err != nil {
			rt.Fatalf("kube-scheduler refuses it: %v\n%s", err, text)
		}
		on := points(made, "default-scheduler")
		problems, found, err := registration.Check(text, registration.CheckOptions{})
		if err != nil {
			rt.Fatalf("Check: %v\n%s", err, text)
		}
		if want := mode(on); found.Mode != want {
			rt.Errorf("Check finds mode %s, want %s: kube-scheduler runs VolumeBinding at %v\n%s", found.Mode, want, on, text)
		}
		got := map[string]bool{}
		for _, p := range problems {
			got[p.Check] = true
		}
		later := on["filter"] || on["preScore"] || on["score"] || on["reserve"] || on["preBind"]
		for check, want := range map[string]bool{
			"reserve-left-on":       on["reserve"] && !on["preBind"],
			"prebind-left-on":       !on["reserve"] && on["preBind"],
			"filter-off-reserve-on": on["reserve"] && on["preBind"] && !on["filter"],
			"prefilter-off":         !on["preFilter"] && later,
			"nobody-filters":        !on["filter"],
		} {
			if got[check] != want {
				rt.Errorf("Check reports %s: %t, want %t: kube-scheduler runs VolumeBinding at %v\n%s", check, got[check], want, on, text)
			}
		}
	})
}

func names(all ...string) []any {
	var list []any
	for _, name := range all {
		list = append(list, map[string]any{"name": name})
	}
	return list
}

// mode is what is left of VolumeBinding, in a word.
func mode(on map[string]bool) registration.Mode {
	switch key := strings.TrimSpace(fmt.Sprint(on["filter"], on["reserve"], on["preBind"])); key {
	case "true true true":
		return registration.ModeStock
	case "true false false":
		return registration.ModeBind
	case "false false false":
		return registration.ModeFull
	default:
		return registration.ModeMixed
	}
}
