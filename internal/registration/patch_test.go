package registration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// theirs is a file of somebody who has profiles, plugins and an extender.
const theirs = `# our scheduler
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
  qps: 300 # we are large
podMaxBackoffSeconds: 60
profiles:
# what everybody uses
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    score:
      disabled:
      - name: ImageLocality # images are everywhere
      - name: VolumeBinding # ours
    reserve:
      enabled:
      - name: Quota
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity: {}
- schedulerName: batch
extenders:
- urlPrefix: "http://127.0.0.1:32766/gpushare"
  filterVerb: filter
  managedResources:
  - {name: aliyun.com/gpu-mem, ignoredByScheduler: false}
`

func patch(t *testing.T, text string, o Options) string {
	t.Helper()
	got, err := Patch([]byte(text), o)
	if err != nil {
		t.Fatalf("Patch, mode %q: %v\n%s", o.Mode, err, text)
	}
	return string(got)
}

func TestPatchBind(t *testing.T) {
	want := edit(t, theirs,
		"      - name: Quota\n", `      - name: Quota
      disabled:
      - name: VolumeBinding # prebind
    preBind:
      disabled:
      - name: VolumeBinding # prebind
`,
		"- schedulerName: batch\n", `- schedulerName: batch
  plugins:
    reserve:
      disabled:
      - name: VolumeBinding # prebind
    preBind:
      disabled:
      - name: VolumeBinding # prebind
`) + `- urlPrefix: https://10.96.0.77:8443/v1
  enableHTTPS: true
  tlsConfig:
    caFile: /etc/kubernetes/prebind/ca.crt
    certFile: /etc/kubernetes/prebind/tls.crt
    keyFile: /etc/kubernetes/prebind/tls.key
    serverName: prebind.kube-system.svc
  bindVerb: bind
  httpTimeout: 11m
  ignorable: false
  nodeCacheCapable: true
`
	got := patch(t, theirs, mtls(ModeBind))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
	if again := patch(t, got, mtls(ModeBind)); again != got {
		t.Errorf("patched again (-once +twice):\n%s", cmp.Diff(got, again))
	}
	if back := patch(t, got, Options{Mode: ModeNone}); back != theirs {
		t.Errorf("taken out again (-before +after):\n%s", cmp.Diff(theirs, back))
	}
}

func TestPatchThroughAllModes(t *testing.T) {
	stock := patch(t, theirs, mtls(ModeStock))
	bind := patch(t, stock, Options{Mode: ModeBind})
	full := patch(t, bind, Options{Mode: ModeFull})
	if got := patch(t, full, Options{Mode: ModeStock}); got != stock {
		t.Errorf("back in mode stock (-before +after):\n%s", cmp.Diff(stock, got))
	}
	if got := patch(t, full, Options{Mode: ModeBind}); got != bind {
		t.Errorf("back in mode bind (-before +after):\n%s", cmp.Diff(bind, got))
	}
	if got := patch(t, full, Options{Mode: ModeNone}); got != theirs {
		t.Errorf("taken out (-before +after):\n%s", cmp.Diff(theirs, got))
	}
	for mode, text := range map[Mode]string{ModeStock: stock, ModeBind: bind, ModeFull: full} {
		problems, found, err := Check([]byte(text), CheckOptions{})
		if err != nil || len(problems) > 0 || found.Mode != mode {
			t.Errorf("mode %s: error %v, problems %+v, found %+v, in:\n%s", mode, err, problems, found, text)
		}
	}
}

// TestPatchWithoutMarks starts from a registration by hand, or whose comments
// were lost.
func TestPatchWithoutMarks(t *testing.T) {
	unmarked := strings.ReplaceAll(patch(t, theirs, mtls(ModeFull)), " # prebind", "")
	want := edit(t, theirs, "      - name: VolumeBinding # ours\n", "") // no longer told apart from ours
	if got := patch(t, unmarked, Options{Mode: ModeNone}); got != want {
		t.Errorf("taken out of mode full (-want +got):\n%s", cmp.Diff(want, got))
	}
	unmarked = strings.ReplaceAll(patch(t, theirs, mtls(ModeBind)), " # prebind", "")
	if got := patch(t, unmarked, Options{Mode: ModeNone}); got != theirs {
		t.Errorf("taken out of mode bind (-want +got):\n%s", cmp.Diff(theirs, got))
	}
}

// entryOf returns the text of the extenders.
func entryOf(text string) string {
	_, entries, _ := strings.Cut(text, "extenders:\n")
	return "extenders:\n" + entries
}

// TestPatchNoneBesideAnotherBinder takes nothing out of a file in which somebody
// else binds.
func TestPatchNoneBesideAnotherBinder(t *testing.T) {
	text := edit(t, theirs, "  filterVerb: filter\n", "  bindVerb: bind\n")
	if got := patch(t, text, Options{Mode: ModeNone}); got != text {
		t.Errorf("taken out (-before +after):\n%s", cmp.Diff(text, got))
	}
}

func TestPatchUpdatesTheEntry(t *testing.T) {
	old := func(entry string) string {
		return edit(t, base, entryOf(base), "extenders:\n"+entry)
	}
	const flow = "- {urlPrefix: 'http://127.0.0.1:8888/v1', bindVerb: bind, httpTimeout: 11m, ignorable: false, nodeCacheCapable: true}\n"
	tests := map[string]struct {
		before  string
		options Options
		want    string // the extenders; empty: nothing changes
		adds    string // to base, which leaves it to the default
	}{
		"what is right stays as it is": {before: base, adds: "  ignorable: false\n"},
		"another address keeps the certificates": {
			before: base, adds: "  ignorable: false\n", options: Options{URL: "https://10.96.0.99:8443"},
			want: edit(t, entryOf(base), "10.96.0.77", "10.96.0.99"),
		},
		"what does harm goes, the rest stays": {
			before: old(`- urlPrefix: http://127.0.0.1:8888/v1/
  bindVerb: bind # the verb
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 3
  ignorable: true
  managedResources: [{name: a.b/c}]
  httpTimeout: 30s
`),
			want: `extenders:
- urlPrefix: http://127.0.0.1:8888/v1/
  bindVerb: bind # the verb
  ignorable: false
  httpTimeout: 11m
  nodeCacheCapable: true
`,
		},
		"a longer time-out stays": {before: strings.Replace(base, "11m", "45m", 1), adds: "  ignorable: false\n"},
		"a time-out that is asked for": {
			before: strings.Replace(base, "11m", "45m", 1), adds: "  ignorable: false\n", options: Options{HTTPTimeout: 2 * time.Minute},
			want: edit(t, entryOf(base), "11m", "2m"),
		},
		"from HTTP to HTTPS": {
			before: old(strings.Replace(flow, "11m, ", "11m, tlsConfig: {}, ", 1)), options: mtls(ModeBind),
			want: `extenders:
- {urlPrefix: 'https://10.96.0.77:8443/v1', bindVerb: bind, httpTimeout: 11m, tlsConfig: {caFile: /etc/kubernetes/prebind/ca.crt, certFile: /etc/kubernetes/prebind/tls.crt, keyFile: /etc/kubernetes/prebind/tls.key, serverName: prebind.kube-system.svc}, ignorable: false, nodeCacheCapable: true, enableHTTPS: true}
`,
		},
		"an entry in braces": {before: old(flow)},
		"from HTTPS to HTTP": {
			before: base, options: Options{URL: "http://127.0.0.1:8888"},
			want: `extenders:
- urlPrefix: http://127.0.0.1:8888/v1
  bindVerb: bind
  enableHTTPS: false
  httpTimeout: 11m
  nodeCacheCapable: true
  ignorable: false
`,
		},
		"an entry with an odd path, at the address that is given": {
			before: strings.NewReplacer("8443/v1", "8443", "prebind.kube-system.svc", "x").Replace(base), adds: "  ignorable: false\n", options: Options{URL: "https://10.96.0.77:8443"},
			want: strings.Replace(entryOf(base), "prebind.kube-system.svc", "x", 1),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.options.Mode = ModeBind
			got := patch(t, tc.before, tc.options)
			want := tc.before
			if tc.want != "" {
				want = strings.Replace(tc.before, entryOf(tc.before), tc.want, 1)
			}
			if diff := cmp.Diff(want, strings.Replace(got, tc.adds, "", 1)); diff != "" {
				t.Errorf("patched (-want +got):\n%s", diff)
			}
			if again := patch(t, got, tc.options); again != got {
				t.Errorf("patched again (-once +twice):\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	tests := map[string]struct {
		text    string
		options Options
		want    string
	}{
		"another extender that binds": {
			edit(t, theirs, "  filterVerb: filter\n", "  filterVerb: filter\n  bindVerb: bind\n"), mtls(ModeBind),
			"extenders[0] (http://127.0.0.1:32766/gpushare) binds already and is not prebind's",
		},
		"two entries of prebind": {
			base + "- {urlPrefix: 'http://127.0.0.1:8888/v1', bindVerb: bind}\n",
			Options{},
			"extenders[0] and extenders[1] both bind: remove one of them first",
		},
		"nothing to go by": {theirs, Options{}, "the file has no entry of prebind, and no URL is given"},
		"no CA":            {theirs, Options{URL: "https://10.96.0.77:8443"}, "an https URL needs a CA"},
		"scheduler names":  {theirs, Options{SchedulerNames: []string{"a"}}, "scheduler names are not for patching"},
		"enabled by name": {
			edit(t, theirs, "name: Quota", "name: VolumeBinding"), mtls(ModeBind),
			"profiles[0].plugins.reserve.enabled names VolumeBinding, which goes before any disabled list",
		},
		"disabled as one of all": {
			edit(t, theirs, "- schedulerName: batch\n", "- schedulerName: batch\n  plugins: {filter: {disabled: [{name: '*'}]}}\n"), mtls(ModeBind),
			"profiles[1].plugins: other lists of this profile disable VolumeBinding as well",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := Patch([]byte(tc.text), tc.options)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q; output:\n%s", err, tc.want, text)
			}
		})
	}
}
