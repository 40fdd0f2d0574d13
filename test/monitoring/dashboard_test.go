package monitoring_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/test/monitoring"
)

func readDashboard(t *testing.T) monitoring.Dashboard {
	t.Helper()
	d, err := monitoring.ReadDashboard(filepath.Join("..", "..", "charts", "prebind", "dashboards", "prebind.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return d
}

// panelQueries returns all queries of the panels by where they stand.
func panelQueries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %q, query %s", p.Title, target.RefID)] = target.Query(5 * time.Minute)
		}
	}
	return all
}

// Panels have numbers of their own and stand beside each other, all with queries.
func TestDashboardIsWellMade(t *testing.T) {
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if other, ok := ids[p.ID]; ok {
			t.Errorf("panels %q and %q have the id %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q of type %s has %d queries", p.Title, p.Type, len(p.Targets))
		}
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
			t.Errorf("panel %q is at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("panels %q and %q overlap at %v", other, p.Title, at)
				}
				taken[at] = p.Title
			}
		}
	}
}

// Whatever the program measures can be seen.
func TestDashboardHasEveryMetric(t *testing.T) {
	var all strings.Builder
	for _, query := range panelQueries(t) {
		all.WriteString(query + "\n")
	}
	for name := range readMetrics(t) {
		if name != "prebind_http_requests_in_flight" && !strings.Contains(all.String(), name) {
			t.Errorf("no panel has %s", name)
		}
	}
}
