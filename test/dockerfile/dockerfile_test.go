package dockerfile

import (
	"bytes"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/solver/pb"
)

func lint(t *testing.T, dockerfile []byte) []string {
	t.Helper()
	o := convertOpt(buildPlatform())
	o.SourceMap = llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", dockerfile)
	o.SourceMap.Definition = &llb.Definition{} // of where the file comes from: nowhere
	result, err := dockerfile2llb.DockerfileLint(t.Context(), dockerfile, o)
	if err != nil {
		t.Fatalf("checking Dockerfile: %v", err)
	}
	var found []string
	for _, warning := range result.Warnings {
		var text bytes.Buffer
		if err := warning.PrintTo(&text, result.Sources, nil); err != nil {
			t.Fatal(err)
		}
		found = append(found, text.String())
	}
	if result.Error != nil {
		found = append(found, "error: "+result.Error.Message)
	}
	return found
}

func TestLinterFindsNothing(t *testing.T) {
	for _, warning := range lint(t, readDockerfile(t)) {
		t.Error(warning)
	}
}

// TestLinterFindsMistakes shows that the silence of the linter means something:
// a directive in the Dockerfile sets its rules.
func TestLinterFindsMistakes(t *testing.T) {
	tests := map[string]struct{ old, replacement, want string }{
		"a secret in a build argument": {"USER", "ARG API_TOKEN\nUSER", "SecretsUsedInArgOrEnv"},
		"an undefined variable":        {"COPY LICENSE", "COPY $LICENCE", "UndefinedVar"},
		"a shell around the program":   {`ENTRYPOINT ["/prebind"]`, "ENTRYPOINT /prebind", "JSONArgsRecommended"},
		"a platform without need":      {"FROM scratch", "FROM --platform=$TARGETPLATFORM scratch", "RedundantTargetPlatform"},
		"an argument described wrong":  {"# COMMIT of", "# Commit of", "InvalidDefinitionDescription"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dockerfile := bytes.Replace(readDockerfile(t), []byte(tc.old), []byte(tc.replacement), 1)
			if !bytes.Contains(dockerfile, []byte(tc.replacement)) {
				t.Fatalf("Dockerfile has no %q to be replaced", tc.old)
			}
			found := strings.Join(lint(t, dockerfile), "")
			if !strings.Contains(found, "WARNING: "+tc.want) {
				t.Errorf("with %q in place of %q: want a warning %s, got:\n%s", tc.replacement, tc.old, tc.want, found)
			}
		})
	}
}

func TestImageConfig(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		t.Run(platform, func(t *testing.T) {
			image := convert(t, platform).image
			if got := platforms.Format(image.Platform); got != platform {
				t.Errorf("image is for %s, want %s", got, platform)
			}
			got := image.Config
			if got.User != "65532:65532" { // numbers, so that runAsNonRoot can be checked
				t.Errorf("user %q, want 65532:65532", got.User)
			}
			if diff := cmp.Diff([]string{"/prebind"}, got.Entrypoint); diff != "" {
				t.Errorf("entrypoint (-want +got):\n%s", diff)
			}
			if len(got.Cmd) > 0 {
				t.Errorf("command %q, want none: the command of prebind is the user's to give", got.Cmd)
			}
			wantPorts := map[string]struct{}{"8443/tcp": {}, "8889/tcp": {}}
			if diff := cmp.Diff(wantPorts, got.ExposedPorts); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
			wantLabels := map[string]string{
				"org.opencontainers.image.title":       "prebind",
				"org.opencontainers.image.description": "A kube-scheduler extender that binds pods and their volumes",
				"org.opencontainers.image.source":      "https://github.com/prebind/prebind",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     buildArgs()["VERSION"],
				"org.opencontainers.image.revision":    buildArgs()["COMMIT"],
				"org.opencontainers.image.created":     buildArgs()["CREATED"],
			}
			if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			for _, variable := range got.Env { // BuildKit sets PATH, and nobody else anything
				if !strings.HasPrefix(variable, "PATH=") {
					t.Errorf("environment has %s, want nothing but PATH", variable)
				}
			}
		})
	}
}

// TestSources wants no other image than golang's of the Go version in go.mod:
// the last stage starts from scratch.
func TestSources(t *testing.T) {
	c := convert(t, "linux/arm64")
	var got []string
	for _, op := range c.steps {
		if source := op.GetSource(); source != nil {
			got = append(got, source.GetIdentifier())
		}
	}
	slices.Sort(got)
	want := []string{"docker-image://docker.io/library/golang:" + goVersion(t), "local://context"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sources (-want +got), the Go version is that of go.mod:\n%s", diff)
	}
}

// goVersion is that of the root's go.mod without the patch, such as 1.26.
func goVersion(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.GoVersion}}")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("reading the Go version of go.mod: %v", err)
	}
	return strings.TrimPrefix(version.Lang("go"+strings.TrimSpace(string(out))), "go")
}

// TestBuildIsCrossCompiled wants the compiler to run on the engine's own
// processor, with both caches of Go kept between builds.
func TestBuildIsCrossCompiled(t *testing.T) {
	execs := convert(t, "linux/arm64").execs("go build")
	if len(execs) != 1 {
		t.Fatalf("%d RUN instructions have go build, want 1", len(execs))
	}
	op := execs[0]
	if got := op.GetPlatform().OS + "/" + op.GetPlatform().Architecture; got != "linux/amd64" {
		t.Errorf("for linux/arm64 on linux/amd64, go build runs on %s, want linux/amd64", got)
	}
	var caches []string
	for _, mount := range op.GetExec().GetMounts() {
		if mount.GetMountType() == pb.MountType_CACHE {
			caches = append(caches, mount.GetDest())
		}
	}
	slices.Sort(caches)
	if diff := cmp.Diff([]string{"/go/pkg/mod", "/root/.cache/go-build"}, caches); diff != "" {
		t.Errorf("cache mounts of go build (-want +got):\n%s", diff)
	}
}

// TestContext wants the engine to be sent what the program is built of, and
// nothing else.
func TestContext(t *testing.T) {
	needed := programFiles(t)
	var folders []string
	for _, path := range needed {
		folders = append(folders, filepath.Dir(path))
	}
	context, err := contextFS()
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	err = context.Walk(t.Context(), "", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			sent = append(sent, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	others := []string{"go.mod", "go.sum", "LICENSE"}
	for _, path := range append(needed, others...) {
		if !slices.Contains(sent, path) {
			t.Errorf("%s is not in the build context, and is needed: .dockerignore leaves it out", path)
		}
	}
	for _, path := range sent {
		switch {
		case slices.Contains(others, path):
		case strings.HasSuffix(path, "_test.go"):
			t.Errorf("%s is in the build context, want no tests", path)
		case !slices.Contains(folders, filepath.Dir(path)): // in them are files for other systems as well
			t.Errorf("%s is in the build context, and in no package of the program: add it to .dockerignore", path)
		}
	}
}

// programFiles are the files of this module that the program is built of, by
// their paths in the repository.
func programFiles(t *testing.T) []string {
	t.Helper()
	const format = `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, "./cmd/prebind")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the program's files: %v", err)
	}
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if path == "" {
			continue
		}
		relative, err := filepath.Rel(base, path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, relative)
	}
	return files
}
