package monitoring_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is an alert of the chart.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// readRules returns the alerts of the chart.
func readRules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "charts", "prebind", "rules", "prebind.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("the chart has no alerts")
	}
	return all
}

// Each alert says how bad it is, and has a section in docs/operations.md; each such
// section has its alert.
func TestAlertsHaveARunbook(t *testing.T) {
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, "docs", "operations.md"), -1) {
		sections[heading[1]] = true
	}
	for _, r := range readRules(t) {
		if !sections[r.Alert] {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
		delete(sections, r.Alert)
		if want := fmt.Sprintf("https://github.com/prebind/prebind/blob/main/docs/operations.md#%s", strings.ToLower(r.Alert)); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s: severity %q", r.Alert, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if !strings.HasSuffix(r.Annotations[annotation], ".") {
				t.Errorf("%s: %s %q is no sentence", r.Alert, annotation, r.Annotations[annotation])
			}
		}
	}
	for section := range sections {
		if strings.HasPrefix(section, "Prebind") {
			t.Errorf("docs/operations.md has a section %s, and there is no such alert", section)
		}
	}
}
