package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prebind/prebind/internal/status"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

// statusCommand is `prebind status` for a prebind.
func (f *fixture) statusCommand(ctx context.Context, p *controlplane.Prebind, args ...string) *exec.Cmd {
	f.t.Helper()
	set, err := programs.Ensure(f.ctx, programs.Config{Out: os.Stderr}, programs.PrebindRace)
	f.must(err)
	address := strings.TrimPrefix(p.OpsURL(), "http://")
	return exec.CommandContext(ctx, set.Path(programs.PrebindRace), append([]string{"status", "--address", address}, args...)...)
}

// status runs `prebind status`.
func (f *fixture) status(p *controlplane.Prebind, args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	command := f.statusCommand(ctx, p, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && command.ProcessState == nil {
		f.t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// statusOf returns the state of one prebind.
func (f *fixture) statusOf(p *controlplane.Prebind) status.Status {
	f.t.Helper()
	code, stdout, stderr := f.status(p, "-o", "json")
	var list status.List
	if code != 0 || json.Unmarshal([]byte(stdout), &list) != nil || len(list.Items) != 1 {
		f.t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	return list.Items[0]
}

// A pod that waits is shown with its cause, and when it is bound it is among the
// last ones.
func TestStatusShowsAWaitAndThenTheBind(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	p := shared.startPrebind(t, controlplane.PrebindOptions{Name: f.name("open"), Config: "server: {debug: true}"})
	class := f.class(newClass("never", "nobody.example/none", waits))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	answer := make(chan string, 1)
	go func() {
		text, err := postBind(f.ctx, p.URL(), bindArgs(pod, node))
		if err != nil {
			text = "transport: " + err.Error()
		}
		answer <- text
	}()
	var got status.Status
	f.eventually("the wait is shown, and nothing is reserved any more", func() bool {
		got = f.statusOf(p)
		return got.RunningTotal == 1 && got.Running[0].ClaimsTotal == 1 && got.ReservationsTotal == 0
	})
	if got.Instance.Host == "" || time.Since(got.Instance.Started) > patience {
		t.Errorf("instance %+v", got.Instance)
	}
	call := got.Running[0]
	if call.Pod != f.ns+"/web" || call.Node != node || call.UID != string(pod.UID) || call.Stage != "preBind" || call.AgeSeconds <= 0 {
		t.Errorf("running call %+v", call)
	}
	want := status.WaitingClaim{Claim: f.ns + "/data", Class: class, Cause: "provisioner", WaitsFor: "provisioner nobody.example/none to make a volume for node " + node}
	if call.Claims[0] != want {
		t.Errorf("it waits for %+v, want %+v", call.Claims[0], want)
	}
	for _, cache := range got.Caches {
		if !cache.Synced || cache.Name == "nodes" && cache.Objects == 0 {
			t.Errorf("cache %+v", cache)
		}
	}
	code, table, stderr := f.status(p)
	for _, part := range []string{"RUNNING: 1\n", f.ns + "/web", want.WaitsFor, "RESERVED: 0\n", "LAST FAILED: 0\n", "LAST BOUND: 0\n", "caches synced: "} {
		if code != 0 || !strings.Contains(table, part) {
			t.Errorf("exit code %d, the table lacks %q:\n%s%s", code, part, table, stderr)
		}
	}

	provisionByHand(f, node)
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	got = f.statusOf(p)
	if got.RunningTotal != 0 || len(got.Bound) != 1 || len(got.Failed) != 0 {
		t.Fatalf("after the bind: %+v", got)
	}
	ended := got.Bound[0]
	if ended.Pod != f.ns+"/web" || ended.Outcome != "bound" || ended.DurationMS <= 0 || len(ended.Stages) != 6 || len(ended.Claims) != 1 {
		t.Errorf("ended call %+v", ended)
	}
}

func TestStatusIsOffByDefault(t *testing.T) {
	f := newFixture(t)
	code, stdout, stderr := f.status(shared.prebind)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "set server.debug: true") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestStatusWatchEndsInOrderAtAnInterrupt(t *testing.T) {
	f := newFixture(t)
	p := shared.startPrebind(t, controlplane.PrebindOptions{Name: f.name("watched"), Config: "server: {debug: true}"})
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	command := f.statusCommand(ctx, p, "--watch")
	out, err := command.StdoutPipe()
	f.must(err)
	f.must(command.Start())
	buffer := make([]byte, 1) // the first state is there
	_, err = out.Read(buffer)
	f.must(err)
	f.must(command.Process.Signal(os.Interrupt))
	rest := new(bytes.Buffer)
	_, err = rest.ReadFrom(out)
	f.must(err)
	if err := command.Wait(); err != nil {
		t.Errorf("watch ended with %v", err)
	}
	if text := string(buffer) + rest.String(); !strings.HasPrefix(text, "prebind ") || !strings.Contains(text, "RUNNING: 0\n") {
		t.Errorf("it printed %q", text)
	}
}
