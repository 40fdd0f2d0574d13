package registration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/config"
)

func TestCheckRefuses(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	tests := map[string]struct {
		text string
		want []string // parts of each mistake
	}{
		"nothing":           {text: "\n# a comment\n", want: []string{"the file is empty"}},
		"no YAML":           {text: head + "profiles: [\n", want: []string{"parsing YAML: "}},
		"a list":            {text: "- a\n", want: []string{"line 1: the file must be a mapping"}},
		"another kind":      {text: "apiVersion: v1\nkind: Pod\n", want: []string{`line 1: kind is "Pod", want KubeSchedulerConfiguration`}},
		"no apiVersion":     {text: "kind: KubeSchedulerConfiguration\n", want: []string{`line 1: apiVersion is "", want kubescheduler.config.k8s.io/v1`}},
		"v1beta3":           {text: strings.Replace(head, "/v1\n", "/v1beta3\n", 1), want: []string{"line 1: apiVersion is kubescheduler.config.k8s.io/v1beta3, which kube-scheduler refuses since 1.29; write kubescheduler.config.k8s.io/v1"}},
		"v1alpha1":          {text: "# old\n" + strings.Replace(head, "/v1\n", "/v1alpha1\n", 1), want: []string{"line 2: apiVersion is kubescheduler.config.k8s.io/v1alpha1, an old version"}},
		"a policy":          {text: "apiVersion: v1\nkind: Policy\n", want: []string{"line 1: a scheduler Policy"}},
		"two documents":     {text: head + "---\n" + head, want: []string{"line 4: a second YAML document"}},
		"unknown fields":    {text: head + "parallel: 3\nprofiles:\n- schedulerName: a\n  plugins:\n    reserv: {}\n", want: []string{"line 3: parallel: unknown field", "line 7: profiles[0].plugins.reserv: unknown field"}},
		"a key in capitals": {text: head + "Profiles: []\n", want: []string{"line 3: Profiles: unknown field"}},
		"a key twice": {
			text: head + "extenders:\n- urlPrefix: http://a\n  ignorable: true\n  ignorable: false\n",
			want: []string{"line 6: extenders[0].ignorable: the key stands in line 5 already"},
		},
		"a wrong type":     {text: head + "extenders:\n- urlPrefix: http://a\n- urlPrefix: http://b\n  ignorable: \"no\"\n", want: []string{"line 6: extenders.ignorable: a string stands where kube-scheduler wants a value of type bool"}},
		"no duration":      {text: head + "extenders:\n- urlPrefix: http://a\n  httpTimeout: 11 minutes\n", want: []string{`line 5: extenders[0].httpTimeout: "11 minutes" is no duration; write it with its unit`}},
		"a number for one": {text: head + "leaderElection: {leaseDuration: 15}\n", want: []string{`line 3: leaderElection.leaseDuration: "15" is no duration`}},
		"plugin arguments": {
			text: head + "profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args:\n      bindTimeout: 3\n  - name: Mine\n    args: {anything: true}\n",
			want: []string{"line 7: profiles[0].pluginConfig[0].args.bindTimeout: unknown field"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Check([]byte(tc.text), CheckOptions{})
			got := config.Mistakes(err)
			if len(got) != len(tc.want) {
				t.Fatalf("mistakes %q, want %q, in:\n%s", got, tc.want, tc.text)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("mistake %d: %q, want it to begin with %q", i, got[i], tc.want[i])
				}
			}
			if _, patched := Patch([]byte(tc.text), Options{URL: "http://127.0.0.1:8888"}); patched == nil || patched.Error() != err.Error() {
				t.Errorf("Patch: %v, want what Check says: %v", patched, err)
			}
		})
	}
}

func TestCheckReadsJSONAndAnchors(t *testing.T) {
	tests := map[string]string{
		"JSON": `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "clientConnection": {"kubeconfig": "/k"},
			"profiles": [{"plugins": {"reserve": {"disabled": [{"name": "VolumeBinding"}]}, "preBind": {"disabled": [{"name": "VolumeBinding"}]}}}],
			"extenders": [{"urlPrefix": "http://127.0.0.1:8888/v1", "bindVerb": "bind", "httpTimeout": "11m"}]}`,
		"anchors": `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /k}
profiles:
- schedulerName: a
  plugins: &plugins
    reserve: &off {disabled: [{name: VolumeBinding}]}
    preBind: *off
- schedulerName: b
  plugins: *plugins
extenders: [{urlPrefix: "http://127.0.0.1:8888/v1", bindVerb: bind, httpTimeout: 11m}]
`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			problems, found, err := Check([]byte(text), CheckOptions{})
			if err != nil || len(problems) > 0 || found.Mode != ModeBind {
				t.Errorf("problems %v, found %+v, error %v; want none, mode bind", problems, found, err)
			}
		})
	}
}

func TestLine(t *testing.T) {
	tree, err := document([]byte("a: 1\nb:\n- c: 2\n- c: 3\n  d: {e: 4}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a": "line 1: ", "b": "line 2: ", "b[1].c": "line 4: ", "b[1].d.e": "line 5: ", "b.d.e": "line 5: ", "b.c": "line 3: ",
		"": "", "x": "", "a.x": "", "b[0].d": "",
	} {
		if diff := cmp.Diff(want, line(tree.Content[0], path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}
