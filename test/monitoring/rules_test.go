package monitoring_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/prebind/prebind/test/monitoring"
)

// readRules returns the alerts of the chart.
func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	alerts, err := monitoring.ReadAlerts(filepath.Join("..", "..", "charts", "prebind", "rules", "prebind.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(alerts) == 0 {
		t.Fatal("the chart has no alerts")
	}
	return alerts
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
