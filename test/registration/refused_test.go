package registration

import (
	"slices"
	"strings"
	"testing"

	"github.com/prebind/prebind/internal/registration"
)

// good is a file that kube-scheduler takes and Check finds nothing in, but for
// certificates that are not there.
const good = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
profiles:
- schedulerName: default-scheduler
  plugins:
    reserve: {disabled: [{name: VolumeBinding}]}
    preBind: {disabled: [{name: VolumeBinding}]}
extenders:
- urlPrefix: http://127.0.0.1:8888/v1
  bindVerb: bind
  httpTimeout: 11m
  nodeCacheCapable: true
`

// TestRefusedAlike wants Check to fail, or to report the fault, for what
// kube-scheduler does not start with, and not to fail for what it takes.
func TestRefusedAlike(t *testing.T) {
	tests := map[string]struct {
		old, new string
		check    string // the fault; empty: an error of form; "-": all is well
	}{
		"good":                     {"", "", "-"},
		"an unknown field":         {"  bindVerb", "  bindverb", ""},
		"a key twice":              {"  bindVerb: bind\n", "  bindVerb: bind\n  bindVerb: bind\n", ""},
		"an old version":           {"k8s.io/v1\n", "k8s.io/v1beta3\n", ""},
		"no version":               {"apiVersion: kubescheduler.config.k8s.io/v1\n", "", ""},
		"another kind":             {"KubeSchedulerConfiguration", "VolumeBindingArgs", ""},
		"a number for a duration":  {"11m", "660", ""},
		"no duration":              {"11m", "11 minutes", ""},
		"a text for a truth":       {"nodeCacheCapable: true", `nodeCacheCapable: "true"`, ""},
		"yes for a truth":          {"nodeCacheCapable: true", "nodeCacheCapable: yes", "-"},
		"unknown arguments":        {"extenders:", "  pluginConfig: [{name: VolumeBinding, args: {timeout: 3}}]\nextenders:", ""},
		"known arguments":          {"extenders:", "  pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 600}}]\nextenders:", "-"},
		"two binders":              {"extenders:\n", "extenders:\n- {urlPrefix: 'http://other:1', bindVerb: bind}\n", "two-binders"},
		"no weight":                {"extenders:\n", "extenders:\n- {urlPrefix: 'http://other:1', prioritizeVerb: score}\n", "weight-missing"},
		"no bind plugin":           {"    reserve", "    bind: {disabled: [{name: DefaultBinder}]}\n    reserve", "no-binder"},
		"a profile twice":          {"extenders:", "- schedulerName: default-scheduler\n  plugins: {reserve: {disabled: [{name: VolumeBinding}]}, preBind: {disabled: [{name: VolumeBinding}]}}\nextenders:", "profile-name-twice"},
		"a profile without a name": {"extenders:", "- plugins: {reserve: {disabled: [{name: VolumeBinding}]}, preBind: {disabled: [{name: VolumeBinding}]}}\nextenders:", "profile-without-name"},
		"insecure beside a CA":     {"http://127.0.0.1:8888/v1\n", "https://127.0.0.1:8888/v1\n  enableHTTPS: true\n  tlsConfig: {insecure: true, caData: Y2E=}\n", "insecure-with-ca"},
		"a CA that is none":        {"http://127.0.0.1:8888/v1\n", "https://127.0.0.1:8888/v1\n  enableHTTPS: true\n  tlsConfig: {caData: Y2E=}\n", "ca-unreadable"},
		"a CA that is not there":   {"http://127.0.0.1:8888/v1\n", "https://127.0.0.1:8888/v1\n  enableHTTPS: true\n  tlsConfig: {caFile: /no/such/file}\n", "file-unreadable"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.old != "" && strings.Count(good, tc.old) != 1 {
				t.Fatalf("%q stands %d times in the file", tc.old, strings.Count(good, tc.old))
			}
			text := []byte(strings.Replace(good, tc.old, tc.new, 1))
			problems, _, err := registration.Check(text, registration.CheckOptions{ReadFile: noFile})
			_, upstream := build(t, text)
			t.Logf("kube-scheduler says: %v", upstream)
			if refuses := tc.check != "-"; refuses != (upstream != nil) {
				t.Errorf("kube-scheduler: %v, want an error: %t", upstream, refuses)
			}
			switch {
			case (tc.check == "") != (err != nil):
				t.Errorf("Check: error %v, want one: %t", err, tc.check == "")
			case tc.check == "-" && len(problems) > 0:
				t.Errorf("Check: %+v, want no problem", problems)
			case tc.check != "" && tc.check != "-" && !slices.ContainsFunc(problems, func(p registration.Problem) bool {
				return p.Check == tc.check && p.Severity == registration.Fault
			}):
				t.Errorf("Check: %+v, want the fault %s", problems, tc.check)
			}
		})
	}
}
