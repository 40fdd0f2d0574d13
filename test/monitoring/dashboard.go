package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Dashboard is what is looked at of Grafana's model of one.
type Dashboard struct {
	Title      string  `json:"title"`
	UID        string  `json:"uid"`
	Panels     []Panel `json:"panels"`
	Templating struct {
		List []Variable `json:"list"`
	} `json:"templating"`
}

// Variable is one that people choose from the values that its query finds.
type Variable struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
}

// Panel is a graph, a number, or the title of a row of them.
type Panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"` // row, stat, timeseries
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []Target `json:"targets"`
}

// Target is a query of a panel.
type Target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// ReadDashboard reads one from a file.
func ReadDashboard(file string) (Dashboard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Dashboard{}, fmt.Errorf("reading a dashboard: %w", err)
	}
	var d Dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return Dashboard{}, fmt.Errorf("reading dashboard %s: %w", file, err)
	}
	return d, nil
}

// Query is the query with everything chosen, and rates over the time.
func (t Target) Query(rate time.Duration) string {
	return strings.NewReplacer("$__rate_interval", model.Duration(rate).String(), "$namespace", ".*", "$job", ".*").Replace(t.Expr)
}
