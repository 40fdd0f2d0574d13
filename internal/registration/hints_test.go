package registration

import (
	"regexp"
	"strings"
	"testing"

	kyaml "sigs.k8s.io/yaml"
)

func TestHints(t *testing.T) {
	tests := map[Distribution][]string{
		Kubeadm: {
			"/etc/kubernetes/manifests/kube-scheduler.yaml", "- --config=/etc/kubernetes/prebind/scheduler-config.yaml",
			"- {name: prebind, hostPath: {path: /etc/kubernetes/prebind, type: Directory}}", "edit configmap kubeadm-config",
			"- name: config\n         value: /etc/kubernetes/prebind/scheduler-config.yaml",
		},
		K3s:  {"/etc/rancher/k3s/config.yaml", "kube-scheduler-arg:\n     - config=/etc/rancher/k3s/prebind/scheduler-config.yaml", "systemctl restart k3s"},
		RKE2: {"/etc/rancher/rke2/config.yaml", "kube-scheduler-extra-mount:\n     - /etc/rancher/rke2/prebind:/etc/rancher/rke2/prebind:ro", "systemctl restart rke2-server"},
		Kind: {"extraMounts:\n       - {hostPath: ./prebind, containerPath: /etc/kubernetes/prebind}", "kubeadmConfigPatches:", "docker cp ./prebind/. kind-control-plane:/etc/kubernetes/prebind"},
	}
	if len(tests) != len(Distributions()) {
		t.Errorf("%d distributions tested, there are %v", len(tests), Distributions())
	}
	for d, parts := range tests {
		t.Run(string(d), func(t *testing.T) {
			found := &Found{Mode: ModeBind, CertFile: d.Dir() + "/tls.crt", KeyFile: d.Dir() + "/tls.key", CAFile: "/etc/ssl/prebind/ca.crt"}
			text, err := Hints(d, found, "infra/pb-client")
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, d.Dir()+"/tls.crt", "kubectl -n infra get secret pb-client -o jsonpath='{.data.tls\\.key}' | base64 -d > ",
				"/etc/ssl/prebind/ca.crt", "Install prebind first", "--mode none --patch FILE", "prebind doctor --before-uninstall", "pods start without their volumes")
			if d != K3s {
				parts = append(parts, "/etc/ssl/prebind\n", "prebind-1")
			}
			if d == RKE2 {
				parts = append(parts[:len(parts)-2], "- /etc/ssl/prebind:/etc/ssl/prebind:ro")
			}
			for _, part := range parts {
				if !strings.Contains(text, strings.TrimSuffix(part, "\n")) {
					t.Errorf("it does not say %q:\n%s", part, text)
				}
			}
			for line := range strings.Lines(text) {
				if len(line) > 150 {
					t.Errorf("a line of %d characters: %s", len(line), line)
				}
			}
			wantYAML(t, text)
		})
	}
}

// wantYAML takes the indented blocks out of the text that begin with a key, and
// wants each to be YAML.
func wantYAML(t *testing.T, text string) {
	t.Helper()
	blocks := regexp.MustCompile(`(?m)^ {5}[A-Za-z-]+:.*\n(?: {5}.*\n)*`).FindAllString(text, -1)
	if len(blocks) == 0 {
		t.Errorf("no block of YAML in:\n%s", text)
	}
	for _, block := range blocks {
		var value map[string]any
		if err := kyaml.UnmarshalStrict([]byte(block), &value); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
	}
}

func TestHintsForModes(t *testing.T) {
	tests := map[Mode]struct{ has, lacks string }{
		ModeStock: {"no pod is bound from the moment that prebind is gone.", "without their volumes"},
		ModeFull:  {"without their volumes", "no pod is bound from the moment that prebind is gone."},
		ModeNone:  {"Put these files there", "Install prebind first"},
	}
	for mode, tc := range tests {
		text, err := Hints(Kubeadm, &Found{Mode: mode}, "")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, tc.has) || strings.Contains(text, tc.lacks) {
			t.Errorf("mode %s: want %q and not %q in:\n%s", mode, tc.has, tc.lacks, text)
		}
	}
	if _, err := Hints("eks", &Found{}, ""); err == nil || err.Error() != `unknown distribution "eks", known ones: kubeadm, k3s, rke2, kind` {
		t.Errorf("eks: %v", err)
	}
}
