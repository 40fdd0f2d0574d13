package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// shell describes a process that runs a script and is ready when a file exists.
func shell(dir, script string) *Process {
	readyFile := filepath.Join(dir, "ready")
	return &Process{
		name: "script", path: "/bin/sh", args: []string{"-c", script},
		logFile: filepath.Join(dir, "script.log"), timeout: 10 * time.Second,
		ready: func(context.Context) error {
			_, err := os.Stat(readyFile)
			return err
		},
	}
}

// ready makes shell's process ready, then the script goes on.
func ready(dir, then string) string { return "touch " + dir + "/ready; " + then }

func TestProcessThatEndsBeforeItIsReadyFailsWithItsLastLines(t *testing.T) {
	p := shell(t.TempDir(), "echo it is broken; exit 3")
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it is broken") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error = %v", err)
	}
}

func TestProcessThatDoesNotBecomeReadyIsKilled(t *testing.T) {
	p := shell(t.TempDir(), "exec sleep 1000")
	p.timeout = 200 * time.Millisecond
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it was not ready after 200ms") {
		t.Errorf("error = %v", err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestProcessThatIgnoresSIGTERMIsKilledAndReported(t *testing.T) {
	dir := t.TempDir()
	p := shell(dir, "trap '' TERM; "+ready(dir, "while :; do sleep 0.1; done"))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err == nil || !strings.Contains(err.Error(), "killed after") {
		t.Errorf("error = %v", err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestFrozenProcessCanBeStopped(t *testing.T) {
	dir := t.TempDir()
	p := shell(dir, ready(dir, "exec sleep 1000"))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAbortReturnsWhatTheProgramLogsAtItsEnd(t *testing.T) {
	dir := t.TempDir()
	p := shell(dir, "echo before; trap 'echo the stacks; exit 2' QUIT; "+ready(dir, "while :; do sleep 0.1; done"))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := p.Abort(t.Context())
	if err != nil || got != "the stacks\n" {
		t.Errorf("Abort() = %q, %v, want what was logged after SIGQUIT", got, err)
	}
	if p.Running() {
		t.Error("it still runs")
	}
}

func TestTakenPortIsTriedAgainWithAnother(t *testing.T) {
	dir := t.TempDir()
	var tried []int
	err := withFreePorts(t.Context(), 1, func(ports []int) error {
		tried = append(tried, ports[0])
		script := "echo 'listen tcp 127.0.0.1:80: bind: address already in use'; exit 1"
		if len(tried) == 3 {
			script = ready(dir, "exec sleep 1000")
		}
		p := shell(dir, script)
		t.Cleanup(func() { _ = p.Kill() })
		return p.Start(t.Context())
	})
	if err != nil || len(tried) != 3 {
		t.Errorf("error = %v after ports %v, want success at the third", err, tried)
	}
	other := errors.New("another error")
	if err := withFreePorts(t.Context(), 1, func([]int) error { return other }); !errors.Is(err, other) {
		t.Errorf("error = %v, want the first that is not about a port", err)
	}
}

// helperVariable makes the test binary the parent in the next test.
const helperVariable = "PREBIND_TEST_PROCESS_PARENT"

func TestChildDiesWithAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a child's life to its parent's")
	}
	if dir := os.Getenv(helperVariable); dir != "" {
		p := shell(dir, "echo $$ > "+dir+"/pid; "+ready(dir, "exec sleep 1000"))
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Println("started")
		<-p.Done() // for ever: we are killed
	}
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildDiesWithAKilledParent$")
	parent.Env = append(os.Environ(), helperVariable+"="+dir)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	started := false
	for !started && lines.Scan() {
		started = lines.Text() == "started"
	}
	if !started {
		t.Fatal("the parent did not start its child")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return !alive(pid), nil
	})
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("child %d outlived its parent", pid)
	}
}

// alive tells whether a process exists and is no zombie (whose new parent may
// be slow to bury it).
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
