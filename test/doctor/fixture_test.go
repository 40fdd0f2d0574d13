package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/doctor"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

// fixture is one test's corner of the shared control plane.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
	ns     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), client: shared.cp.Client()}
	var err error
	f.ns, err = shared.cp.CreateNamespace(f.ctx, "doctor")
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) create(objects ...runtime.Object) {
	f.t.Helper()
	f.must(shared.cp.Create(f.ctx, objects...))
}

// prebind starts a prebind of the test's own, named after its namespace.
func (f *fixture) prebind(opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	opts.Name = f.ns
	p, err := shared.cp.StartPrebind(f.ctx, opts)
	f.must(err)
	f.t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	return p
}

// configFile is the configuration of the test's prebind.
func (f *fixture) configFile() string { return f.ns + ".yaml" }

// path is where a file named to doctor is: doctor runs in the control plane's
// folder, so that its output has no path of this machine in it.
func path(name string) string { return filepath.Join(shared.cp.Dir(), name) }

// scheduler starts kube-scheduler, until the test ends, and returns its
// configuration file.
func (f *fixture) scheduler(opts controlplane.SchedulerOptions) string {
	f.t.Helper()
	f.must(shared.cp.StartScheduler(f.ctx, opts))
	f.t.Cleanup(func() {
		if err := shared.cp.StopScheduler(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	return "kube-scheduler.yaml"
}

// write makes a file for doctor.
func (f *fixture) write(name, text string) string {
	f.t.Helper()
	name = f.ns + "-" + name
	f.must(os.WriteFile(path(name), []byte(text), 0o600))
	return name
}

// edited copies a file with one change, which must be one.
func (f *fixture) edited(name, file, old, replacement string) string {
	f.t.Helper()
	text, err := os.ReadFile(path(file))
	f.must(err)
	if !bytes.Contains(text, []byte(old)) {
		f.t.Fatalf("%s has no %q:\n%s", file, old, text)
	}
	return f.write(name, strings.Replace(string(text), old, replacement, 1))
}

// waitBound waits until the scheduler has had a pod of the test bound.
func (f *fixture) waitBound(name string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	_, err := shared.cp.WaitBound(ctx, f.ns, name)
	f.must(err)
}

func (f *fixture) eventually(what string, condition func() bool) {
	f.t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		f.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// examined is what one run of doctor said.
type examined struct {
	doctor.Report
	t    *testing.T
	code int
	text string // for people
}

// doctor runs `prebind doctor` twice: for programs, which is what is checked,
// and for people, for the log. The exit code and the count of faults must agree.
func (f *fixture) doctor(args ...string) *examined {
	f.t.Helper()
	args = append([]string{"--kubeconfig", shared.cp.Kubeconfig()}, args...)
	code, output, _ := f.run(programs.Prebind, append([]string{"doctor", "-o", "json"}, args...)...)
	got := &examined{t: f.t, code: code}
	if err := json.Unmarshal([]byte(output), &got.Report); err != nil {
		f.t.Fatalf("exit code %d, no JSON: %v\n%s", code, err, output)
	}
	_, got.text, _ = f.run(programs.Prebind, append([]string{"doctor"}, args...)...)
	if want := min(got.Faults, 1); code != want {
		f.t.Errorf("exit code %d with %d faults, want %d:\n%s", code, got.Faults, want, got.text)
	}
	f.t.Log(got.text)
	return got
}

// run runs a program and returns its exit code and output.
func (f *fixture) run(program programs.Program, args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, shared.programs.Path(program), args...)
	command.Dir, command.Stdout, command.Stderr = shared.cp.Dir(), &out, &errs
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), errs.String()
	}
	f.must(err)
	return 0, out.String(), errs.String()
}

// status wants a check to have ended like this.
func (e *examined) status(check string, want doctor.Status) {
	e.t.Helper()
	for _, result := range e.Checks {
		if result.Name == check {
			if result.Status != want {
				e.t.Errorf("check %s: status %s, want %s:\n%s", check, result.Status, want, e.text)
			}
			return
		}
	}
	e.t.Errorf("no check %s:\n%s", check, e.text)
}

// finding wants one of a check's findings to have the severity and, in object
// or what, all the words; and to say why and how to mend it.
func (e *examined) finding(check string, severity doctor.Status, words ...string) doctor.Finding {
	e.t.Helper()
	for _, result := range e.Checks {
		if result.Name != check {
			continue
		}
		for _, finding := range result.Findings {
			if finding.Severity == severity && containsAll(finding.Object+" "+finding.What, words) {
				if finding.Why == "" || finding.Mend == "" {
					e.t.Errorf("check %s: a finding without why or mend: %+v", check, finding)
				}
				return finding
			}
		}
	}
	e.t.Fatalf("check %s has no %s with %q:\n%s", check, severity, words, e.text)
	return doctor.Finding{}
}

// noFault wants no fault at all.
func (e *examined) noFault() {
	e.t.Helper()
	if e.Faults != 0 || e.code != 0 {
		e.t.Errorf("%d faults, exit code %d, want none and 0:\n%s", e.Faults, e.code, e.text)
	}
}

// onlyFaults wants faults in these checks and in no other.
func (e *examined) onlyFaults(checks ...string) {
	e.t.Helper()
	var got []string
	for _, result := range e.Checks {
		if result.Status == doctor.Fault {
			got = append(got, result.Name)
		}
	}
	if strings.Join(got, " ") != strings.Join(checks, " ") {
		e.t.Errorf("checks with faults: %q, want %q:\n%s", got, checks, e.text)
	}
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
