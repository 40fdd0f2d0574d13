package dockerfile

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// root is the repository's, seen from this package.
const root = "../.."

// buildArgs are the ones that every test builds with.
func buildArgs() map[string]string {
	return map[string]string{
		"VERSION": "v1.2.3-test",
		"COMMIT":  "0123456789abcdef0123456789abcdef01234567",
		"CREATED": "2024-05-06T07:08:09Z",
	}
}

// convertOpt is for an engine on linux/amd64 that builds for target.
func convertOpt(target ocispecs.Platform) dockerfile2llb.ConvertOpt {
	caps := pb.Caps.CapSet(pb.Caps.All())
	return dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs:      buildArgs(),
			BuildPlatforms: []ocispecs.Platform{buildPlatform()},
		},
		TargetPlatform: &target,
		MetaResolver:   golangImage{},
		LLBCaps:        &caps,
	}
}

func buildPlatform() ocispecs.Platform { return platforms.MustParse("linux/amd64") }

// golangImage stands for a registry in which every image is like golang's.
type golangImage struct{}

func (golangImage) ResolveImageConfig(_ context.Context, ref string, o sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	image := dockerspec.DockerOCIImage{Image: ocispecs.Image{Platform: buildPlatform()}}
	if o.ImageOpt != nil && o.ImageOpt.Platform != nil {
		image.Platform = *o.ImageOpt.Platform
	}
	image.Config.Env = []string{"PATH=/go/bin:/usr/local/go/bin:/usr/bin:/bin", "GOPATH=/go", "GOTOOLCHAIN=local"}
	image.Config.WorkingDir = "/go"
	image.RootFS.DiffIDs = []digest.Digest{digest.FromString(ref)} // an image of no layer counts as scratch
	data, err := json.Marshal(image)
	return ref, "", data, err
}

func readDockerfile(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// converted is what BuildKit makes of the Dockerfile for one platform.
type converted struct {
	image *dockerspec.DockerOCIImage
	// steps by the digest of their encoding, by which they name each other.
	steps map[digest.Digest]*pb.Op
	// last step is the one that makes the image's files.
	last digest.Digest
}

func convert(t *testing.T, platform string) converted {
	t.Helper()
	target := platforms.Normalize(platforms.MustParse(platform))
	result, err := dockerfile2llb.Dockerfile2LLB(t.Context(), readDockerfile(t), convertOpt(target))
	if err != nil {
		t.Fatalf("compiling Dockerfile for %s: %v", platform, err)
	}
	definition, err := result.State.Marshal(t.Context(), llb.Platform(target))
	if err != nil {
		t.Fatalf("encoding the steps for %s: %v", platform, err)
	}
	c := converted{image: result.Image, steps: map[digest.Digest]*pb.Op{}}
	for i, data := range definition.Def {
		op := &pb.Op{}
		if err := op.UnmarshalVT(data); err != nil {
			t.Fatalf("decoding step %d for %s: %v", i, platform, err)
		}
		if op.GetOp() == nil { // the last entry only points at the step whose result is wanted
			c.last = digest.Digest(op.GetInputs()[0].GetDigest())
			continue
		}
		c.steps[digest.FromBytes(data)] = op
	}
	return c
}

// execs are the steps of RUN instructions whose command has part in it.
func (c converted) execs(part string) []*pb.Op {
	var found []*pb.Op
	for _, op := range c.steps {
		if exec := op.GetExec(); exec != nil && strings.Contains(strings.Join(exec.GetMeta().GetArgs(), " "), part) {
			found = append(found, op)
		}
	}
	return found
}
