package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notes returns what an installation would print.
func (h helm) notes(t *testing.T, values string) string {
	t.Helper()
	file, err := valuesFile(values)
	must(t, err)
	out, err := h.runOn(t.Context(), controlPlane(t).Kubeconfig(),
		"install", "prebind", shared.chart, "--namespace", "kube-system", "--dry-run=client", "--values", file)
	must(t, err)
	_, notes, found := strings.Cut(out, "\nNOTES:\n")
	if !found {
		t.Fatalf("%s prints no notes:\n%s", h.name, out)
	}
	return notes
}

// The configuration in the notes is one that kube-scheduler takes.
func TestNotesConfigureTheScheduler(t *testing.T) {
	controlPlane(t)
	eachCombination(t, func(t *testing.T, c combination) {
		for _, h := range helms() {
			notes := h.notes(t, c.values(t))
			if c.scheduler {
				if strings.Contains(notes, configBegin) || !strings.Contains(notes, "schedulerName: ") {
					t.Errorf("%s: the notes are about another scheduler than the second:\n%s", h.name, notes)
				}
				continue
			}
			cfg := schedulerConfig(t, between(t, notes, configBegin, configEnd))
			plugins := cfg.Profiles[0].Plugins
			if !disabled(plugins.Reserve) || !disabled(plugins.PreBind) || cfg.Profiles[0].SchedulerName != "default-scheduler" {
				t.Errorf("%s: VolumeBinding is not disabled at both points of the default scheduler:\n%s", h.name, notes)
			}
			extender := cfg.Extenders[0]
			if extender.EnableHTTPS != (c.tls != "none") || extender.Ignorable || extender.BindVerb != "bind" {
				t.Errorf("%s: the extender is %+v", h.name, extender)
			}
			if tls := extender.TLSConfig; tls != nil && (tls.Insecure || tls.CAFile == "" || tls.ServerName != c.fullname()+".kube-system.svc") {
				t.Errorf("%s: tlsConfig is %+v", h.name, tls)
			}
			if !strings.Contains(notes, "BEFORE UNINSTALL") {
				t.Errorf("%s: the notes do not tell what to restore before an uninstall", h.name)
			}
		}
	})
}

// Every warning of the templates is printed for the values that it is about,
// and a careful installation gets none but the two that go with Helm's certificates.
func TestNotesWarnOfWhatIsUnsafe(t *testing.T) {
	h := helms()[0]
	var seen strings.Builder
	for values, want := range map[string]string{
		"replicas: 1": "one replica:",
		"{tls: {type: none}, config: {server: {insecure: true}}}": "plain HTTP (tls.type=none",
		"{mode: daemonset, tls: {type: none}}":                    "every process on the control-plane nodes",
		"config: {server: {tls: {clientCAFile: ''}}}":             "callers are not authenticated",
		"config: {server: {tls: {allowedClientNames: []}}}":       "any certificate of the client CA",
		"config: {server: {address: '127.0.0.1:8443'}}":           "the Service does not reach it",
		"config: {server: {opsAddress: '127.0.0.1:8889'}}":        "the kubelet's probes fail",
		"{}":                                      "service.clusterIP is not fixed",
		"tls: {helm: {certDays: 90}}":             "the certificates end on",
		"tls: {type: helm}":                       "make a new one each time",
		"podDisruptionBudget: {enabled: false}":   "a drain may evict all replicas",
		"networkPolicy: {enabled: false}":         "every pod reaches prebind's ports",
		"scheduler: {enabled: true, replicas: 1}": "one replica of the second scheduler",
	} {
		notes := h.notes(t, values)
		seen.WriteString(notes)
		if !regexp.MustCompile(`(?m)^WARNING: .*` + regexp.QuoteMeta(want)).MatchString(notes) {
			t.Errorf("%s: no warning that %q in\n%s", values, want, notes)
		}
	}
	text, err := os.ReadFile(filepath.Join(shared.chart, "templates", "_notes.tpl"))
	must(t, err)
	action := regexp.MustCompile(`\{\{.*?\}\}`)
	for _, line := range regexp.MustCompile(`(?m)^WARNING: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if words := longest(action.Split(line[1], -1)); !strings.Contains(seen.String(), words) {
			t.Errorf("no test sees this warning: %s", line[1])
		}
	}
	careful := h.notes(t, "tls: {type: existingSecret, existingSecret: {server: mine, client: mine}}\nservice: {clusterIP: 10.96.0.77}")
	if strings.Contains(careful, "WARNING") {
		t.Errorf("a careful installation is warned:\n%s", careful)
	}
}
