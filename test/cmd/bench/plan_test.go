package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		line string
		want string
	}{
		"unknown command":       {"fast", `unknown command "fast"`},
		"argument":              {"burst 5", `unexpected argument "5"`},
		"unknown variant":       {"burst -variants stock,fast", `unknown variant "fast"`},
		"unknown scenario":      {"all -only idle,nothing", "-only nothing: want some of scale, idle"},
		"not in quick":          {"all -quick -only burst-5000", "-only burst-5000"},
		"more pods than disks":  {"burst -nodes 2 -volumes 3 -pods 7", "7 pods need more than the 6 volumes of 2 nodes x 3 volumes"},
		"no pods":               {"plain -pods 0", "-nodes and -pods must be positive"},
		"page without a folder": {"idle -page p.md", "-out is required"},
		"render of nothing":     {"render", "-out is required"},
		"scale of nothing":      {"scale -nodes 5 -quick", "must be positive"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			words := strings.Fields(test.line)
			_, err := parse(words[0], words[1:], io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("bench %s: error %v, want one with %q", test.line, err, test.want)
			}
		})
	}
}

// The world cannot shrink, and a scenario needs as many volumes as pods.
func TestScenariosCanRunInTheirOrder(t *testing.T) {
	for _, quick := range []bool{false, true} {
		var before world
		var names []string
		for _, s := range scenarios(quick) {
			if s.World.Nodes < before.Nodes || s.World.PerNode < before.PerNode {
				t.Errorf("quick %t: %s wants %s after %s", quick, s.Name, s.World, before)
			}
			if s.Kind != plain && s.Pods > s.World.volumes() {
				t.Errorf("quick %t: %s has %d pods for %d volumes", quick, s.Name, s.Pods, s.World.volumes())
			}
			if len(s.Variants) == 0 || slices.Contains(names, s.Name) {
				t.Errorf("quick %t: %s has the variants %v; names before it are %v", quick, s.Name, s.Variants, names)
			}
			before, names = s.World, append(names, s.Name)
		}
		if last := scaleDefaults(quick).World; last.Nodes < before.Nodes || last.PerNode < before.PerNode {
			t.Errorf("quick %t: scale wants %s after %s", quick, last, before)
		}
	}
}

func TestEveryGoalIsMeasured(t *testing.T) {
	list := scenarios(false)
	for _, g := range goals() {
		i := slices.IndexFunc(list, func(s scenario) bool { return s.Name == g.scenario })
		if i < 0 || !slices.Contains(list[i].Variants, g.ours) {
			t.Errorf("goal %q: scenario %s does not measure %s", g.what, g.scenario, g.ours)
		}
	}
}

func TestParseVariants(t *testing.T) {
	got, err := parseVariants("full/Direct,stock,bind")
	want := []variant{
		{controlplane.ModeFull, direct}, stock(), {controlplane.ModeBind, controller}, {controlplane.ModeBind, direct},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("variants %v, error %v, want %v", got, err, want)
	}
}
