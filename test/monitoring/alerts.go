package monitoring

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// ReadAlerts returns the alerts of a rule file, checked as Prometheus checks them when
// it starts.
func ReadAlerts(file string) ([]rulefmt.Rule, error) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading rules: %w", errors.Join(errs...))
	}
	var alerts []rulefmt.Rule
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				return nil, fmt.Errorf("reading rules: %s: record %s is no alert", file, rule.Record)
			}
			alerts = append(alerts, rule)
		}
	}
	return alerts, nil
}

// NewAlert returns the alert as the rule engine evaluates it.
func NewAlert(rule rulefmt.Rule) (*rules.AlertingRule, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
	if err != nil {
		return nil, fmt.Errorf("alert %s: %w", rule.Alert, err)
	}
	const restored = true // or no alert would fire before it is
	return rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
		labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", restored, slog.New(slog.DiscardHandler)), nil
}

// Firing returns what the alert tells now: its series that are past their "for".
func Firing(alert *rules.AlertingRule) []*rules.Alert {
	var firing []*rules.Alert
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			firing = append(firing, active)
		}
	}
	return firing
}
