package dockerfile

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImageFiles runs the whole build, and looks at what is in the image.
func TestImageFiles(t *testing.T) {
	tests := map[string]elf.Machine{
		"linux/amd64": elf.EM_X86_64,
		"linux/arm64": elf.EM_AARCH64,
	}
	for platform, machine := range tests {
		t.Run(platform, func(t *testing.T) {
			c := convert(t, platform)
			image, err := newRunner(c, t.TempDir(), os.Getenv("PATH")).run(t.Context(), c.last)
			if err != nil {
				t.Fatalf("building for %s: %v", platform, err)
			}
			if diff := cmp.Diff([]string{"licenses/LICENSE", "prebind"}, list(t, image)); diff != "" {
				t.Fatalf("files of the image (-want +got):\n%s", diff)
			}
			checkStatic(t, filepath.Join(image, "prebind"), machine)
			if platform == buildPlatform().OS+"/"+buildPlatform().Architecture {
				checkRuns(t, c, image)
			}
		})
	}
}

// checkStatic wants a program for machine that needs no other file.
func checkStatic(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	program, err := elf.Open(path)
	if err != nil {
		t.Fatalf("opening the program: %v", err)
	}
	defer func() { _ = program.Close() }()
	if program.Machine != machine {
		t.Errorf("program is for %s, want %s", program.Machine, machine)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("program asks for an interpreter: it is not static")
		}
	}
	if libraries, err := program.ImportedLibraries(); err == nil && len(libraries) > 0 {
		t.Errorf("program needs %q: it is not static", libraries)
	}
	if program.Section(".symtab") != nil {
		t.Error("program has a symbol table, want it stripped as by `make build`")
	}
}

// checkRuns starts the image's entrypoint as the image's user, with nothing
// but the image's files.
func checkRuns(t *testing.T, c converted, image string) {
	t.Helper()
	if os.Geteuid() != 0 || runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Log("not root on linux/amd64: the program is not run in the image's files")
		return
	}
	user, group, _ := strings.Cut(c.image.Config.User, ":")
	cmd := exec.CommandContext(t.Context(), c.image.Config.Entrypoint[0], append(c.image.Config.Entrypoint[1:], "version")...)
	cmd.Dir = "/"
	cmd.Env = c.image.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     image,
		Credential: &syscall.Credential{Uid: number(t, user), Gid: number(t, group)},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("running %s in the image's files as %s: %v\n%s", cmd.Args, c.image.Config.User, err, out)
	}
	lines := strings.Split(string(out), "\n")
	for _, want := range []string{"prebind    " + buildArgs()["VERSION"], "commit     " + buildArgs()["COMMIT"]} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s: want a line %q, got:\n%s", cmd.Args, want, out)
		}
	}
}

func number(t *testing.T, s string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatalf("the image's user is not of two numbers: %v", err)
	}
	return uint32(n)
}

// list returns the paths of all files in dir.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestVariants runs the build with a go command that only writes down what it
// is asked to build for.
func TestVariants(t *testing.T) {
	const script = `#!/bin/sh
[ "$1" = build ] || exit 0
mkdir -p bin
echo "$GOOS/$GOARCH CGO_ENABLED=$CGO_ENABLED GOAMD64=$GOAMD64 GOARM=$GOARM" >bin/prebind
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"linux/amd64":    "linux/amd64 CGO_ENABLED=0 GOAMD64=v1 GOARM=",
		"linux/amd64/v3": "linux/amd64 CGO_ENABLED=0 GOAMD64=v3 GOARM=",
		"linux/arm64":    "linux/arm64 CGO_ENABLED=0 GOAMD64= GOARM=",
		"linux/arm64/v8": "linux/arm64 CGO_ENABLED=0 GOAMD64= GOARM=",
		"linux/arm/v7":   "linux/arm CGO_ENABLED=0 GOAMD64= GOARM=7",
	}
	for platform, want := range tests {
		t.Run(platform, func(t *testing.T) {
			c := convert(t, platform)
			image, err := newRunner(c, t.TempDir(), bin+":"+os.Getenv("PATH")).run(t.Context(), c.last)
			if err != nil {
				t.Fatalf("building for %s: %v", platform, err)
			}
			got, err := os.ReadFile(filepath.Join(image, "prebind"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, strings.TrimSpace(string(got))); diff != "" {
				t.Errorf("go build for %s (-want +got):\n%s", platform, diff)
			}
		})
	}
}
