package registration

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/registration"
)

// TestGeneratedBuildsAScheduler takes what is generated, and what is patched,
// through kube-scheduler's own code, and looks at the plugins that are left.
func TestGeneratedBuildsAScheduler(t *testing.T) {
	files := certificates(t)
	all := map[string]bool{"preFilter": true, "filter": true, "preScore": true, "score": true, "reserve": true, "preBind": true}
	left := map[registration.Mode]map[string]bool{
		registration.ModeBind:  {"preFilter": true, "filter": true, "preScore": true, "score": true},
		registration.ModeFull:  {"preFilter": true},
		registration.ModeStock: all,
	}
	options := map[string]registration.Options{
		"HTTP":           {URL: "http://127.0.0.1:8888", KubeconfigPath: "/etc/kubernetes/scheduler.conf"},
		"HTTPS":          files.options(),
		"three profiles": files.options("default-scheduler", "batch", "no"),
	}
	for mode, want := range left {
		for name, o := range options {
			t.Run(string(mode)+", "+name, func(t *testing.T) {
				o.Mode = mode
				text, err := registration.Generate(o)
				if err != nil {
					t.Fatal(err)
				}
				wantScheduler(t, text, o, want)
			})
		}
		t.Run(string(mode)+", patched", func(t *testing.T) {
			o := files.options()
			o.Mode = mode
			text, err := registration.Patch([]byte(theirs), o)
			if err != nil {
				t.Fatal(err)
			}
			o.SchedulerNames = []string{"default-scheduler", "batch"}
			wantScheduler(t, text, o, want)
			back, err := registration.Patch(text, registration.Options{Mode: registration.ModeNone})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(theirs, string(back)); diff != "" {
				t.Errorf("taken out again (-before +after):\n%s", diff)
			}
		})
	}
}

// theirs is a file of somebody who has more than one profile.
const theirs = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 1
- schedulerName: batch
  plugins:
    multiPoint:
      enabled:
      - name: VolumeBinding
    score:
      disabled:
      - name: ImageLocality
extenders:
- urlPrefix: http://127.0.0.1:32766/share
  filterVerb: filter
  managedResources:
  - name: example.com/share
`

func wantScheduler(t *testing.T, text []byte, o registration.Options, want map[string]bool) {
	t.Helper()
	made, err := build(t, text)
	if err != nil {
		t.Fatalf("kube-scheduler refuses it: %v\n%s", err, text)
	}
	names := o.SchedulerNames
	if len(names) == 0 {
		names = []string{"default-scheduler"}
	}
	if len(made.Profiles) != len(names) {
		t.Errorf("%d profiles, want %v", len(made.Profiles), names)
	}
	for _, name := range names {
		if diff := cmp.Diff(want, points(made, name)); diff != "" {
			t.Errorf("VolumeBinding in profile %s (-want +got):\n%s\n%s", name, diff, text)
		}
	}
	binders := 0
	for _, e := range made.Extenders {
		if e.IsBinder() {
			binders++
			if e.IsIgnorable() {
				t.Error("the binder is ignorable")
			}
		}
	}
	if binders != 1 {
		t.Errorf("%d extenders bind, want 1", binders)
	}
	problems, found, err := registration.Check(text, registration.CheckOptions{ReadFile: os.ReadFile, Now: time.Now()})
	if err != nil || len(problems) > 0 || found.Mode != o.Mode {
		t.Errorf("Check: error %v, problems %+v, found %+v", err, problems, found)
	}
}
