package chart_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// process is a program that a test runs and that ends with the test.
type process struct {
	name string
	log  string // file of what it writes
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program. The kernel ends it with the thread that started it, so
// a goroutine keeps that thread.
func start(t *testing.T, name, path string, args, env []string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(t.TempDir(), name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	must(t, err)
	p.cmd = exec.CommandContext(context.Background(), path, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, childAttributes()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		_ = log.Close() // the child has its own
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of %s:\n%s", name, p.tail())
		}
		p.kill()
	})
	return p
}

// kill ends the program at once: prebind would go on for its shutdownDelay.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ended tells how the program ended; nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %s\n%s", p.name, p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

// tail is the end of what it has written.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
