package monitoring_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// dashboard is what the tests look at of Grafana's model.
type dashboard struct {
	Title      string  `json:"title"`
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "charts", "prebind", "dashboards", "prebind.json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return d
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
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all.WriteString(target.Expr + "\n")
		}
	}
	for name := range readMetrics(t) {
		if name != "prebind_http_requests_in_flight" && !strings.Contains(all.String(), name) {
			t.Errorf("no panel has %s", name)
		}
	}
}

// queries returns all queries of the dashboard by where they stand, with Grafana's
// variables replaced.
func (d dashboard) queries() map[string]string {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$job", ".*")
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %q, query %s", p.Title, target.RefID)] = variables.Replace(target.Expr)
		}
	}
	return all
}
