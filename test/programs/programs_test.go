package programs

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/test/internal/console"
)

func TestProgressOfABuildIsReadFromTheGoCommand(t *testing.T) {
	p := progress{program: Etcd, start: time.Now()}
	var errs []string
	show := func(lines ...string) string {
		for _, line := range lines {
			errs = p.read(line, errs)
		}
		return strings.Join(strings.Fields(p.String()), " ")
	}
	steps := []struct {
		lines []string
		want  string
	}{
		{nil, "building etcd looking for what is to compile 0.0s"},
		{[]string{"go: downloading k8s.io/api v0.37.2"}, "building etcd downloading modules: 1 0.0s k8s.io/api v0.37.2"},
		{[]string{totalPrefix + "3", "errors", "net/http"}, "building etcd 2/3 packages 0.0s net/http"},
		{[]string{"# example.com/broken", "broken.go:1:1: expected 'package'"}, "building etcd 2/3 packages 0.0s net/http"},
		{[]string{"go.etcd.io/etcd/server/v3"}, "building etcd 3/3 packages, linking 0.0s"},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, show(step.lines...)); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", step.lines, diff)
		}
	}
	if diff := cmp.Diff([]string{"# example.com/broken", "broken.go:1:1: expected 'package'"}, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestStampChangesWithVersionFlagsAndGo(t *testing.T) {
	stamp := func(version, goVersion string) string {
		versions := map[string]string{kubernetesModule: version}
		r, err := recipeOf(APIServer, versions)
		if err != nil {
			t.Fatal(err)
		}
		return r.stamp(versions, goVersion)
	}
	base := stamp("v1.37.2", "go1.26.8")
	if base != stamp("v1.37.2", "go1.26.8") {
		t.Error("the same build has two stamps")
	}
	for name, other := range map[string]string{"version": stamp("v1.37.3", "go1.26.8"), "Go": stamp("v1.37.2", "go1.26.9")} {
		if base == other {
			t.Errorf("another %s has the same stamp", name)
		}
	}
	for _, want := range []string{"gitVersion=v1.37.2 ", "gitMajor=1 ", "gitMinor=37 "} {
		if !strings.Contains(base, want) {
			t.Errorf("stamp %q has no %q", base, want)
		}
	}
}

func TestHelmIsBuiltAtItsOwnVersion(t *testing.T) {
	versions := map[string]string{kubernetesModule: "v1.37.2"}
	for program, want := range map[Program][]string{
		HelmV3: {"helm.sh/helm/v3/cmd/helm " + helmV3Version + "\n", "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37"},
		HelmV4: {"helm.sh/helm/v4/cmd/helm " + helmV4Version + "\n"},
	} {
		r, err := recipeOf(program, versions)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if stamp := r.stamp(versions, "go1.26.8"); !strings.Contains(stamp, text) {
				t.Errorf("the stamp of %s is %q, it lacks %q", program, stamp, text)
			}
		}
	}
}

// miniature writes a repository whose prebind is one small program.
func miniature(t *testing.T, main string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module " + rootModule + "\n\ngo 1.26.0\n",
		"cmd/prebind/main.go": main,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The test module is the real one: it knows the versions.
	repository, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repository, "test"), filepath.Join(root, "test")); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestPrebindIsBuiltAndAnUnchangedOneCostsNothing(t *testing.T) {
	root := miniature(t, "package main\n\nfunc main() {}\n")
	for range 2 {
		set, err := Ensure(t.Context(), Config{Root: root}, Prebind)
		if err != nil {
			t.Fatal(err)
		}
		if !set.Has(Prebind) || set.Path(Prebind) != filepath.Join(root, "build", "bin", "prebind") {
			t.Errorf("prebind is not where the set says: %s", set.Path(Prebind))
		}
	}
}

func TestErrorOfABuildCarriesTheCompilersWords(t *testing.T) {
	root := miniature(t, "package main\n\nfunc main() { missing() }\n")
	_, err := Ensure(t.Context(), Config{Root: root}, Prebind)
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("error = %v, want the compiler's", err)
	}
}

func TestSecondBuilderWaitsForTheFirst(t *testing.T) {
	root := miniature(t, "package main\n\nfunc main() {}\n")
	if err := os.MkdirAll(filepath.Join(root, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := filepath.Join(root, "build", "programs.lock")
	unlock, err := lock(t.Context(), b, console.Discard())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Ensure(short, Config{Root: root, Out: io.Discard}, Prebind); err == nil {
		t.Error("built while another held the lock")
	}
	unlock()
	if _, err := Ensure(t.Context(), Config{Root: root}, Prebind); err != nil {
		t.Error(err)
	}
}
