package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/fsutil"
	fs "github.com/tonistiigi/fsutil/copy"
)

// runner runs the steps of a build on folders: a step gets those of the steps
// before it, and makes one of its own. Paths are the container's below the
// step's folder, so a command that names an absolute path leaves nothing in it.
type runner struct {
	converted
	work string // its folders are here
	path string // PATH of commands
	done map[digest.Digest]string
}

func newRunner(c converted, work, path string) *runner {
	return &runner{converted: c, work: work, path: path, done: map[digest.Digest]string{}}
}

// run returns the folder that step made, and runs what it needs before.
func (r *runner) run(ctx context.Context, step digest.Digest) (string, error) {
	if dir, ok := r.done[step]; ok {
		return dir, nil
	}
	op, ok := r.steps[step]
	if !ok {
		return "", fmt.Errorf("no step %s", step)
	}
	inputs := make([]string, len(op.GetInputs()))
	for i, input := range op.GetInputs() {
		dir, err := r.run(ctx, digest.Digest(input.GetDigest()))
		if err != nil {
			return "", err
		}
		inputs[i] = dir
	}
	dir := filepath.Join(r.work, strconv.Itoa(len(r.done)))
	if err := os.Mkdir(dir, 0o755); err != nil { // the image's user is to see what is below
		return "", err
	}
	var err error
	switch {
	case op.GetSource() != nil:
		err = source(ctx, op.GetSource(), dir)
	case op.GetFile() != nil:
		err = files(ctx, op.GetFile(), inputs, dir)
	case op.GetExec() != nil:
		err = r.command(ctx, op.GetExec(), inputs, dir)
	default:
		err = fmt.Errorf("step %T is unknown to this test", op.GetOp())
	}
	r.done[step] = dir
	return dir, err
}

// source gives the build context as an engine's client sends it. An image is
// empty: commands find the tools of this machine.
func source(ctx context.Context, s *pb.SourceOp, dir string) error {
	switch {
	case strings.HasPrefix(s.GetIdentifier(), "docker-image://"):
		return nil
	case s.GetIdentifier() != "local://context":
		return fmt.Errorf("source %s is neither an image nor the build context", s.GetIdentifier())
	}
	context, err := contextFS()
	if err != nil {
		return err
	}
	return context.Walk(ctx, "", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), data, 0o644)
	})
}

// contextFS is the repository without what .dockerignore leaves out, by the
// code that an engine's client has.
func contextFS() (fsutil.FS, error) {
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("parsing .dockerignore: %w", err)
	}
	all, err := fsutil.NewFS(root)
	if err != nil {
		return nil, err
	}
	return fsutil.NewFilterFS(all, &fsutil.FilterOpt{ExcludePatterns: patterns})
}

// files runs the COPY and WORKDIR instructions.
func files(ctx context.Context, op *pb.FileOp, inputs []string, dir string) error {
	for i, action := range op.GetActions() {
		// The first action starts from an input, each other one from the action before.
		if base := int(action.GetInput()); i == 0 && base >= 0 {
			if err := os.CopyFS(dir, os.DirFS(inputs[base])); err != nil {
				return err
			}
		} else if i > 0 && base != len(inputs)+i-1 {
			return fmt.Errorf("file action %d starts from %d, which is unknown to this test", i, base)
		}
		var err error
		switch {
		case action.GetMkdir() != nil:
			err = os.MkdirAll(filepath.Join(dir, action.GetMkdir().GetPath()), 0o755)
		case action.GetCopy() != nil:
			err = copyFiles(ctx, action.GetCopy(), inputs[action.GetSecondaryInput()], dir)
		default:
			err = fmt.Errorf("file action %T is unknown to this test", action.GetAction())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFiles(ctx context.Context, action *pb.FileActionCopy, from, to string) error {
	sources := []string{action.GetSrc()}
	if action.GetAllowWildcard() {
		var err error
		if sources, err = fs.ResolveWildcards(from, action.GetSrc(), action.GetFollowSymlink()); err != nil {
			return err
		}
	}
	if len(sources) == 0 {
		return fmt.Errorf("COPY %s: no such file in its source (is it in .dockerignore?)", action.GetSrc())
	}
	for _, source := range sources {
		err := fs.Copy(ctx, from, source, to, action.GetDest(), func(info *fs.CopyInfo) {
			info.CopyDirContents = action.GetDirCopyContents()
			info.FollowLinks = action.GetFollowSymlink()
			info.IncludePatterns, info.ExcludePatterns = action.GetIncludePatterns(), action.GetExcludePatterns()
		})
		if err != nil {
			return fmt.Errorf("COPY %s: %w", source, err)
		}
	}
	return nil
}

// command runs a RUN instruction with its environment, in its work folder.
func (r *runner) command(ctx context.Context, op *pb.ExecOp, inputs []string, dir string) error {
	for _, mount := range op.GetMounts() {
		switch {
		case mount.GetDest() == pb.RootMount:
			if err := os.CopyFS(dir, os.DirFS(inputs[mount.GetInput()])); err != nil {
				return err
			}
		case mount.GetMountType() != pb.MountType_CACHE: // Go's caches are this machine's
			return fmt.Errorf("RUN --mount of %s on %s is unknown to this test", mount.GetMountType(), mount.GetDest())
		}
	}
	args := op.GetMeta().GetArgs()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(dir, op.GetMeta().GetCwd())
	for _, variable := range append(os.Environ(), op.GetMeta().GetEnv()...) {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "PATH", "GOPATH", "GOFLAGS", "GOOS", "GOARCH", "GOAMD64", "CGO_ENABLED":
			// This machine's would change what is built, the image's are not here.
		default:
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+r.path)
	output, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("RUN %s: %w\n%s", args[len(args)-1], err, output)
	}
	return err
}
