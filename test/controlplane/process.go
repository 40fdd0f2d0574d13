package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// stopTimeout is how long a program may take to end after SIGTERM before
	// it is killed.
	stopTimeout = 20 * time.Second
	// probeInterval is the pause between two looks at a starting program.
	probeInterval = 50 * time.Millisecond
	// probeTimeout bounds one look.
	probeTimeout = 5 * time.Second
)

// Process is one program that a test may kill and start again. Its methods
// must not be called at the same time, except Running, Done, Log and Tail.
type Process struct {
	name     string
	path     string
	args     []string
	logFile  string
	ready    func(context.Context) error // nil error: it serves
	timeout  time.Duration               // for it to become ready
	url      string                      // where it serves, if anybody asks for more than readiness
	ca       *authority                  // of its certificate
	existing bool                        // belongs to an existing cluster: nothing can be done to it

	mu  sync.Mutex
	run *run // the newest one; nil before the first
}

// run is one life of a process.
type run struct {
	process *os.Process
	done    chan struct{} // closed when the process has ended
	err     error         // how it ended; valid once done is closed
	logFrom int64         // where its log begins in the log file
}

// Name returns the program's name.
func (p *Process) Name() string { return p.name }

// Log returns the file that gets the program's output. All its runs add to it.
func (p *Process) Log() string { return p.logFile }

// Start runs the program with the same arguments as ever and returns when it
// serves. The error of a program that ends or does not become ready in time
// carries the last lines of its log; it is then no longer running.
func (p *Process) Start(ctx context.Context) error {
	if p.existing {
		return fmt.Errorf("starting %s: %w", p.name, ErrExistingCluster)
	}
	if p.Running() {
		return fmt.Errorf("starting %s: it is running", p.name)
	}
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	if err := p.awaitReady(ctx, r); err != nil {
		if log, readErr := readFrom(p.logFile, r.logFrom); errors.Is(err, errEnded) && readErr == nil && portTaken(log) {
			err = errPortTaken
		}
		_ = p.Kill()
		return fmt.Errorf("starting %s: %w; the last lines of %s:\n%s", p.name, err, p.logFile, p.Tail(15))
	}
	return nil
}

// launch starts the program from a goroutine that keeps its thread, because
// the kernel would otherwise kill the child when Go retires that thread.
func (p *Process) launch() (*run, error) {
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	r := &run{done: make(chan struct{}), logFrom: info.Size()}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(r.done)
		// No context: it would end the program at the end of the call that
		// started it.
		cmd := exec.CommandContext(context.Background(), p.path, p.args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = childAttributes()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		r.process = cmd.Process
		started <- nil
		r.err = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = r
	return r, nil
}

// errEnded says that a program ended before it served.
var errEnded = errors.New("it ended")

func endedError(status error) error {
	if status == nil {
		return fmt.Errorf("%w with exit status 0", errEnded)
	}
	return fmt.Errorf("%w with %w", errEnded, status)
}

func (p *Process) awaitReady(ctx context.Context, r *run) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, probeInterval, p.timeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.done:
			return false, endedError(r.err)
		default:
		}
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		err := p.ready(probe)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("it was not ready after %s: %w", p.timeout, last)
	}
	return err
}

// Kill ends the program at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() error {
	if p.existing {
		return fmt.Errorf("killing %s: %w", p.name, ErrExistingCluster)
	}
	r := p.current()
	if r == nil {
		return nil
	}
	r.signal(syscall.SIGKILL)
	<-r.done
	return nil
}

// Stop asks the program to end (SIGTERM) and returns when it is gone. One that
// has not ended after 20 seconds, or when ctx ends, is killed: that is an error.
func (p *Process) Stop(ctx context.Context) error {
	if p.existing {
		return fmt.Errorf("stopping %s: %w", p.name, ErrExistingCluster)
	}
	r := p.current()
	if r == nil {
		return nil
	}
	r.signal(syscall.SIGCONT) // a frozen program would not see SIGTERM
	r.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("stopping %s: killed after it had not ended: %w", p.name, ctx.Err())
	}
}

// Abort ends the program by SIGQUIT and returns what it logged from then on: of
// a Go program, the stacks of its goroutines. One that has not ended after 20
// seconds, or when ctx ends, is killed: that is an error.
func (p *Process) Abort(ctx context.Context) (string, error) {
	before, err := os.Stat(p.logFile)
	if err != nil {
		return "", fmt.Errorf("aborting %s: %w", p.name, err)
	}
	if err := p.signalRunning("aborting", syscall.SIGQUIT); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		_ = p.Kill()
		return "", fmt.Errorf("aborting %s: killed after it had not ended: %w", p.name, ctx.Err())
	}
	text, err := readFrom(p.logFile, before.Size())
	if err != nil {
		return "", fmt.Errorf("aborting %s: %w", p.name, err)
	}
	return string(text), nil
}

// Freeze halts the program (SIGSTOP) as a lost machine would: its connections
// stay open and nothing is answered.
func (p *Process) Freeze() error { return p.signalRunning("freezing", syscall.SIGSTOP) }

// Thaw lets a frozen program run on.
func (p *Process) Thaw() error { return p.signalRunning("thawing", syscall.SIGCONT) }

func (p *Process) signalRunning(doing string, sig syscall.Signal) error {
	if p.existing {
		return fmt.Errorf("%s %s: %w", doing, p.name, ErrExistingCluster)
	}
	if !p.Running() {
		return fmt.Errorf("%s %s: it is not running", doing, p.name)
	}
	p.current().signal(sig)
	return nil
}

// Running tells whether the program runs.
func (p *Process) Running() bool {
	r := p.current()
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Done returns a channel that is closed when the present run has ended, nil
// before the first run.
func (p *Process) Done() <-chan struct{} {
	if r := p.current(); r != nil {
		return r.done
	}
	return nil
}

// Err tells how the last run ended: nil when it exited with status 0, or while
// it runs.
func (p *Process) Err() error {
	r := p.current()
	if r == nil || p.Running() {
		return nil
	}
	return r.err
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// signal does nothing to a process that has ended.
func (r *run) signal(sig syscall.Signal) { _ = r.process.Signal(sig) }
