package faults_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/test/programs"
)

// alertCases bring the program into the states that the chart's alerts are about.
func alertCases() map[string]func(t *testing.T) *recorder {
	return map[string]func(t *testing.T) *recorder{
		"PrebindDown":               killed,
		"PrebindCacheNotSynced":     withoutARight,
		"PrebindNoBindCalls":        notWired,
		"PrebindBindErrors":         failing,
		"PrebindFaults":             forbidden,
		"PrebindTooManyCalls":       full,
		"PrebindAnswersLate":        hungUpOn,
		"PrebindBindsSlow":          slowAPIServer,
		"PrebindFilterSlow":         slowFilter,
		"PrebindVolumeWaitLong":     waitingForLong,
		"PrebindReservationsStuck":  blind,
		"PrebindAPIWritesFail":      unwellAPIServer,
		"PrebindRateLimited":        rateLimited,
		"PrebindCertificateExpires": lastDay,
		"PrebindCallersRefused":     strangers,
	}
}

// Each alert of the chart fires when the program is in the state that it is about: the
// program's own metrics, in Prometheus' own rule engine.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	root, err := programs.Root()
	if err != nil {
		t.Fatal(err)
	}
	set, err := programs.Ensure(t.Context(), programs.Config{Root: root, Out: os.Stderr}, programs.Alerts)
	if err != nil {
		t.Fatal(err)
	}
	program, file := set.Path(programs.Alerts), filepath.Join(root, "charts", "prebind", "rules", "prebind.yaml")
	cases := alertCases()
	if diff := cmp.Diff(alertNames(t, file), slices.Sorted(maps.Keys(cases))); diff != "" {
		t.Errorf("alerts (-rules +here):\n%s", diff)
	}
	for name, bringAbout := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if fired := bringAbout(t).fired(program, file); !slices.Contains(fired, name) {
				t.Errorf("%s does not fire, but %q", name, fired)
			}
		})
	}
	t.Run("none when all is well", func(t *testing.T) {
		t.Parallel()
		fired := slices.DeleteFunc(working(t).fired(program, file), func(name string) bool {
			return name == "PrebindBindsSlow" || name == "PrebindFilterSlow" // the machine may be
		})
		if len(fired) > 0 {
			t.Errorf("%q fire", fired)
		}
	})
}

func alertNames(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	slices.Sort(names)
	return names
}

// working binds pods, with and without claims, each half an hour.
func working(t *testing.T) *recorder {
	on := ownStand(t)
	r := record(newFixture(t, on))
	for range 3 {
		for _, s := range []*scene{staticScene(t, on), dynamicScene(t, on), boundScene(t, on), plainScene(t, on)} {
			s.filter(s.web, s.node, s.other)
			s.mustBind(s.web, s.node)
		}
		r.minutes(30)
	}
	return r
}
