package chart_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// The alerts and the dashboard are the chart's files as they are, which test/monitoring
// looks at; without being asked for neither is there.
func TestRenderedMonitoring(t *testing.T) {
	eachHelm(t, func(t *testing.T, h helm) {
		manifest, err := h.template(t.Context(), "prometheusRule: {enabled: true, labels: {release: prometheus}}\ndashboard: {enabled: true, annotations: {grafana_folder: Scheduling}}")
		must(t, err)
		all := parse(t, manifest)

		rule := all.find("PrometheusRule", "prebind")
		if rule == nil {
			t.Fatal("there is no PrometheusRule")
		}
		if diff := cmp.Diff(readYAML(t, filepath.Join(shared.chart, "rules", "prebind.yaml")), rule.Object["spec"]); diff != "" {
			t.Errorf("rules (-file +rendered):\n%s", diff)
		}
		if rule.GetLabels()["release"] != "prometheus" {
			t.Errorf("labels %v", rule.GetLabels())
		}

		dashboard := get[corev1.ConfigMap](t, all, "ConfigMap", "prebind-dashboard")
		want, err := os.ReadFile(filepath.Join(shared.chart, "dashboards", "prebind.json"))
		must(t, err)
		if diff := cmp.Diff(string(want), dashboard.Data["prebind.json"]); diff != "" {
			t.Errorf("dashboard (-file +rendered):\n%s", diff)
		}
		if dashboard.Labels["grafana_dashboard"] != "1" || dashboard.Annotations["grafana_folder"] != "Scheduling" {
			t.Errorf("labels %v, annotations %v", dashboard.Labels, dashboard.Annotations)
		}

		manifest, err = h.template(t.Context(), "{}")
		must(t, err)
		plain := parse(t, manifest)
		if plain.find("PrometheusRule", "prebind") != nil || plain.find("ConfigMap", "prebind-dashboard") != nil {
			t.Error("they are there unasked")
		}
	})
}
