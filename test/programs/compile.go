package programs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// interruptWait is how long a go command may take to end after Ctrl-C.
const interruptWait = 10 * time.Second

// progress is what is known of one running build.
type progress struct {
	program    Program
	start      time.Time
	total      int    // packages to compile
	done       int    // of them, begun
	downloaded int    // modules
	now        string // the package or module at hand
}

func (p progress) String() string {
	elapsed := seconds(time.Since(p.start))
	switch {
	case p.total == 0 && p.done == 0 && p.downloaded > 0:
		return fmt.Sprintf("building %-24s downloading modules: %d  %s  %s", p.program, p.downloaded, elapsed, p.now)
	case p.total == 0 && p.done > 0:
		return fmt.Sprintf("building %-24s %d packages  %s  %s", p.program, p.done, elapsed, p.now)
	case p.total == 0:
		return fmt.Sprintf("building %-24s looking for what is to compile  %s", p.program, elapsed)
	case p.done >= p.total:
		return fmt.Sprintf("building %-24s %d/%d packages, linking  %s", p.program, p.done, p.total, elapsed)
	default:
		return fmt.Sprintf("building %-24s %d/%d packages  %s  %s", p.program, p.done, p.total, elapsed, p.now)
	}
}

// build compiles and links r into binary, shows how far it is, and tells how
// many packages were compiled.
func (b *builder) build(ctx context.Context, p Program, r recipe, binary string) (compiled int, err error) {
	state := progress{program: p, start: time.Now()}
	lines := make(chan string)
	var output []string // what is neither a package nor a download: the compiler's errors
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		defer close(lines)
		return b.compile(ctx, r, binary, lines)
	})
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for open := true; open; {
		select {
		case line, more := <-lines:
			open = more
			output = state.read(line, output)
		case <-tick.C:
			b.out.Status("%s", state)
		}
	}
	if err := work.Wait(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, lastLines(strings.Join(output, "\n"), 20))
	}
	if r.stamped || state.done > 0 {
		b.out.Printf("built %-27s %s, %d packages compiled", p, seconds(time.Since(state.start)), state.done)
	}
	return state.done, nil
}

// read takes one line of the go command into the progress. A line that says
// nothing about it is added to output.
func (p *progress) read(line string, output []string) []string {
	stale, isTotal := strings.CutPrefix(line, totalPrefix)
	module, isDownload := strings.CutPrefix(line, "go: downloading ")
	switch {
	case line == "":
	case isTotal:
		p.total, _ = strconv.Atoi(stale)
	case isDownload:
		p.downloaded++
		p.now = module
	case strings.ContainsAny(line, " \t:"):
		return append(output, line)
	default:
		p.done++
		p.now = line
	}
	return output
}

// totalPrefix marks the line by which compile tells the number of packages.
const totalPrefix = "prebind: packages to compile: "

// compile runs `go list` for the number of packages that are not in the build
// cache, then `go build`, and sends both commands' messages to lines.
func (b *builder) compile(ctx context.Context, r recipe, binary string, lines chan<- string) error {
	if r.version != "" {
		return b.install(ctx, r, binary, lines)
	}
	stale := 0
	count := func(string) { stale++ }
	list := []string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}
	list = append(list, r.flags...)
	if err := b.goLines(ctx, r, append(list, r.pkg), count, lines); err != nil {
		return err
	}
	lines <- fmt.Sprint(totalPrefix, stale)
	args := append([]string{"build", "-v", "-o", binary}, r.flags...)
	return b.goLines(ctx, r, append(args, r.pkg), func(string) {}, lines)
}

// install runs `go install` at the recipe's version, which needs no go.mod and
// can neither tell beforehand what is to compile nor name the program.
func (b *builder) install(ctx context.Context, r recipe, binary string, lines chan<- string) error {
	dir, err := os.MkdirTemp(b.bin, ".install-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := append([]string{"install", "-v"}, r.flags...)
	if err := b.goLines(ctx, r, append(args, r.pkg+"@"+r.version), func(string) {}, lines, "GOBIN="+dir); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, path.Base(r.pkg)), binary)
}

// goLines runs the go command: each line of its standard output goes to each,
// each line of its standard error to lines. env is added to the environment.
func (b *builder) goLines(ctx context.Context, r recipe, args []string, each func(string), lines chan<- string, env ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.root, r.folder)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes its work folder
	cmd.WaitDelay = interruptWait
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var readers errgroup.Group
	readers.Go(func() error { return scan(stdout, each) })
	readers.Go(func() error { return scan(stderr, func(line string) { lines <- line }) })
	_ = readers.Wait() // a broken pipe shows in the command's own status
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("running go %s: %w", args[0], err)
	}
	return nil
}

func scan(r io.Reader, each func(string)) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if lines.Text() != "" {
			each(lines.Text())
		}
	}
	return lines.Err()
}
