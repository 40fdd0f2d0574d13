package programs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prebind/prebind/test/internal/console"
)

// Config says where to build and whom to tell.
type Config struct {
	// Root is the repository's root. Empty: found from the working directory.
	Root string
	// Out gets the progress. Nil: nobody. If it is a terminal, the progress of
	// the running build is one line that is redrawn in place.
	Out io.Writer
}

// Ensure builds those of programs that are missing or out of date, one after
// the other, and returns where they are. On a machine that has compiled nothing
// before, the whole control plane takes minutes; ctx ends it early.
func Ensure(ctx context.Context, cfg Config, programs ...Program) (Set, error) {
	if cfg.Root == "" {
		root, err := Root()
		if err != nil {
			return Set{}, err
		}
		cfg.Root = root
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	b := &builder{
		root:   cfg.Root,
		bin:    filepath.Join(cfg.Root, "build", "bin"),
		stamps: filepath.Join(cfg.Root, "build", "stamps"),
		out:    console.New(cfg.Out),
	}
	for _, dir := range []string{b.bin, b.stamps} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Set{}, fmt.Errorf("building the programs: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(cfg.Root, "build", "programs.lock"), b.out)
	if err != nil {
		return Set{}, fmt.Errorf("building the programs: %w", err)
	}
	defer unlock()
	defer b.out.Done()
	if err := b.all(ctx, programs); err != nil {
		return Set{}, err
	}
	return Set{dir: b.bin}, nil
}

// builder builds programs of one repository. It is used by one goroutine.
type builder struct {
	root, bin, stamps string
	out               *console.Console

	goVersion string
	versions  map[string]string // by module path
}

func (b *builder) all(ctx context.Context, programs []Program) error {
	if err := b.readVersions(ctx); err != nil {
		return fmt.Errorf("building the programs: %w", err)
	}
	start, built, skipped := time.Now(), 0, 0
	for _, p := range programs {
		did, err := b.one(ctx, p)
		if err != nil {
			return fmt.Errorf("building %s: %w", p, err)
		}
		if did {
			built++
		} else {
			skipped++
		}
	}
	if built > 0 {
		b.out.Printf("programs ready in %s: %d built, %d up to date", seconds(time.Since(start)), built, skipped)
	}
	return nil
}

// one builds p unless it is up to date, and tells whether it did.
func (b *builder) one(ctx context.Context, p Program) (bool, error) {
	r, err := recipeOf(p, b.versions)
	if err != nil {
		return false, err
	}
	binary, stampFile := filepath.Join(b.bin, string(p)), filepath.Join(b.stamps, string(p))
	stamp := r.stamp(b.versions, b.goVersion)
	if r.stamped {
		if have, err := os.ReadFile(stampFile); err == nil && string(have) == stamp {
			if _, err := os.Stat(binary); err == nil {
				return false, nil
			}
		}
	}
	compiled, err := b.build(ctx, p, r, binary)
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(stampFile, []byte(stamp), 0o644); err != nil {
		return false, err
	}
	return r.stamped || compiled > 0, nil
}

// readVersions asks the go command for its own version and the modules'.
func (b *builder) readVersions(ctx context.Context) error {
	text, err := b.goOutput(ctx, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return err
	}
	b.goVersion = strings.Join(strings.Fields(text), " ")
	text, err = b.goOutput(ctx, "list", "-m", "-f", "{{.Path}} {{.Version}}", kubernetesModule, etcdModule)
	if err != nil {
		return err
	}
	b.versions = map[string]string{}
	for line := range strings.Lines(text) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		b.versions[path] = version
	}
	return nil
}

// goOutput runs the go command in the test module and returns what it prints.
func (b *builder) goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.root, "test")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w\n%s", strings.Join(args[:min(2, len(args))], " "), err, lastLines(stderr.String(), 10))
	}
	return string(text), nil
}

func lastLines(text string, n int) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-n):], ""))
}

// seconds prints a duration as people read it while they wait.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
