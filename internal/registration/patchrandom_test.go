package registration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	kyaml "sigs.k8s.io/yaml"
)

// object is a part of a file.
type object = map[string]any

// randomFile draws a file that kube-scheduler takes: profiles with lists and
// arguments, other extenders, and maybe an older entry of prebind.
func randomFile(t *rapid.T) object {
	file := object{"apiVersion": apiVersion, "kind": kind}
	maybe(t, file, "parallelism", rapid.IntRange(1, 64))
	maybe(t, file, "podMaxBackoffSeconds", rapid.IntRange(10, 90))
	maybe(t, file, "clientConnection", rapid.SampledFrom([]object{{"qps": 100}, {"kubeconfig": "/etc/scheduler: #1"}}))
	maybe(t, file, "leaderElection", rapid.SampledFrom([]object{{"leaderElect": false}, {"leaseDuration": "15s"}}))
	var profiles, extenders []any
	for i := range rapid.IntRange(0, 3).Draw(t, "profiles") {
		profiles = append(profiles, randomProfile(t, fmt.Sprintf("scheduler-%d", i)))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "other extenders") {
		extenders = append(extenders, randomExtender(t, i))
	}
	if rapid.Bool().Draw(t, "registered before") {
		at := rapid.IntRange(0, len(extenders)).Draw(t, "at")
		extenders = slices.Insert(extenders, at, any(randomEntry(t)))
	}
	if len(profiles) > 0 {
		file["profiles"] = profiles
	}
	if len(extenders) > 0 {
		file["extenders"] = extenders
	}
	return file
}

func maybe[V any](t *rapid.T, in object, key string, value *rapid.Generator[V]) {
	if rapid.Bool().Draw(t, key+"?") {
		in[key] = value.Draw(t, key)
	}
}

// randomProfile may disable VolumeBinding at score, everything at reserve or
// preBind, and other plugins anywhere.
func randomProfile(t *rapid.T, name string) object {
	profile := object{"schedulerName": name}
	maybe(t, profile, "percentageOfNodesToScore", rapid.IntRange(0, 100))
	maybe(t, profile, "pluginConfig", rapid.SampledFrom([][]any{
		{object{"name": "Mine", "args": object{"a": []any{1, "yes", nil}}}},
		{object{"name": volumeBinding, "args": object{"bindTimeoutSeconds": 30}}},
	}))
	plugins := object{}
	for _, point := range []string{"preFilter", "filter", "preScore", "score", "reserve", "preBind", "permit", "multiPoint"} {
		set := object{}
		var disabled []any
		others := []string{"ImageLocality", "Mine"}
		if point == "reserve" || point == "preBind" {
			others = append(others, everyPlugin)
		}
		if point == "score" || point == "permit" {
			others = append(others, volumeBinding)
		}
		for _, name := range others {
			if rapid.Bool().Draw(t, point+" without "+name) {
				disabled = append(disabled, object{"name": name})
			}
		}
		if len(disabled) > 0 {
			set["disabled"] = disabled
		}
		maybe(t, set, "enabled", rapid.Just([]any{object{"name": "Quota", "weight": 2}}))
		if len(set) > 0 {
			plugins[point] = set
		}
	}
	if len(plugins) > 0 {
		profile["plugins"] = plugins
	}
	return profile
}

func randomExtender(t *rapid.T, i int) object {
	e := object{"urlPrefix": fmt.Sprintf("http://gpu-%d:9999/share", i)}
	maybe(t, e, "filterVerb", rapid.Just("filter"))
	maybe(t, e, "ignorable", rapid.Bool())
	maybe(t, e, "httpTimeout", rapid.Just("3s"))
	maybe(t, e, "tlsConfig", rapid.Just(object{"serverName": "gpu", "caData": "Y2E="}))
	maybe(t, e, "managedResources", rapid.Just([]any{object{"name": fmt.Sprintf("a.b/c%d", i), "ignoredByScheduler": true}}))
	return e
}

func randomEntry(t *rapid.T) object {
	e := object{"urlPrefix": "http://10.0.0.1:8888/v1", "bindVerb": "bind"}
	maybe(t, e, "httpTimeout", rapid.SampledFrom([]string{"30s", "11m", "1h"}))
	maybe(t, e, "ignorable", rapid.Bool())
	maybe(t, e, "nodeCacheCapable", rapid.Bool())
	maybe(t, e, "filterVerb", rapid.Just("filter"))
	return e
}

// written draws a way to write the file.
func written(t *rapid.T, file object) []byte {
	style := rapid.SampledFrom([]string{"YAML", "JSON", "indented JSON"}).Draw(t, "style")
	var text []byte
	var err error
	switch style {
	case "YAML":
		text, err = kyaml.Marshal(file)
	case "JSON":
		text, err = json.Marshal(file)
	default:
		text, err = json.MarshalIndent(file, "", "  ")
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(t *rapid.T, text []byte) object {
	var file object
	if err := kyaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return file
}

func patched(t *rapid.T, text []byte, o Options) []byte {
	got, err := Patch(text, o)
	if err != nil {
		t.Fatalf("Patch, mode %q: %v\n%s", o.Mode, err, text)
	}
	again, err := Patch(got, o)
	if err != nil || !bytes.Equal(again, got) {
		t.Fatalf("patched twice, mode %q, error %v (-once +twice):\n%s", o.Mode, err, cmp.Diff(string(got), string(again)))
	}
	return got
}

// others are the extenders that are not prebind's, in order.
func others(file object) []any {
	list, _ := file["extenders"].([]any)
	var others []any
	for _, item := range list {
		if e := item.(object); e["bindVerb"] == nil && e["urlPrefix"] != "http://127.0.0.1:8888/v1" {
			others = append(others, e)
		}
	}
	return others
}

// missing returns the paths of what is in before and not, with the same value,
// in after. Lists may have got more elements, at their end.
func missing(at string, before, after any) []string {
	var lost []string
	switch before := before.(type) {
	case object:
		after, _ := after.(object)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			lost = append(lost, missing(at+"."+key, before[key], after[key])...)
		}
	case []any:
		after, _ := after.([]any)
		for i, item := range before {
			if i >= len(after) {
				lost = append(lost, fmt.Sprintf("%s[%d]", at, i))
				continue
			}
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", at, i), item, after[i])...)
		}
	default:
		if !cmp.Equal(before, after) {
			lost = append(lost, at)
		}
	}
	return lost
}

// without returns the file without one key.
func without(file object, key string) object {
	file = maps.Clone(file)
	delete(file, key)
	return file
}

func TestPatchKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := written(t, randomFile(t))
		mode := rapid.SampledFrom([]Mode{ModeBind, ModeFull, ModeStock}).Draw(t, "mode")
		got := patched(t, text, Options{Mode: mode, URL: "http://127.0.0.1:8888"})
		before, after := read(t, text), read(t, got)
		if lost := missing("", without(before, "extenders"), after); len(lost) > 0 {
			t.Errorf("lost or changed: %v\nbefore:\n%s\nafter:\n%s", lost, text, got)
		}
		if diff := cmp.Diff(others(before), others(after)); diff != "" {
			t.Errorf("other extenders (-before +after):\n%s", diff)
		}
		_, found, err := Check(got, CheckOptions{})
		if err != nil || mode != ModeStock && found.Mode != mode || found.URL != "http://127.0.0.1:8888/v1" {
			t.Errorf("found %+v, error %v, want mode %s in:\n%s", found, err, mode, got)
		}
		list, _ := after["extenders"].([]any)
		if mine, want := len(list)-len(others(after)), map[Mode]int{ModeBind: 1, ModeFull: 2, ModeStock: 1}[mode]; mine != want {
			t.Errorf("%d entries of prebind, want %d, in:\n%s", mine, want, got)
		}
	})
}

func TestPatchComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := written(t, randomFile(t))
		first := patched(t, text, Options{Mode: ModeStock, URL: "http://127.0.0.1:8888"})
		now := first
		for _, mode := range rapid.SliceOfN(rapid.SampledFrom([]Mode{ModeBind, ModeFull, ModeStock}), 1, 4).Draw(t, "modes") {
			now = patched(t, now, Options{Mode: mode})
		}
		want, got := read(t, first), read(t, patched(t, now, Options{Mode: ModeStock}))
		if want["profiles"] == nil && got["profiles"] != nil { // the default, written out
			want["profiles"] = []any{object{"schedulerName": defaultSchedulerName}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("back in mode stock (-before +after):\n%s\nfrom:\n%s", diff, now)
		}
		want["extenders"] = others(want)
		if len(others(want)) == 0 {
			delete(want, "extenders")
		}
		if diff := cmp.Diff(want, read(t, patched(t, now, Options{Mode: ModeNone}))); diff != "" {
			t.Errorf("taken out (-before +after):\n%s\nfrom:\n%s", diff, now)
		}
	})
}
