package programs

import (
	"fmt"
	"strings"
)

// Program names an executable by its file name in build/bin.
type Program string

// The programs that Ensure can build.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
	Scheduler         Program = "kube-scheduler"
	Kubectl           Program = "kubectl"
	Prebind           Program = "prebind"
	// PrebindRace is prebind with the race detector: on a data race it exits
	// with status 66 and a report on its standard error. It needs a C compiler.
	PrebindRace Program = "prebind-race"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	rootModule       = "github.com/prebind/prebind"
	testModule       = rootModule + "/test"
)

// ControlPlane lists the programs that a control plane runs.
func ControlPlane() []Program {
	return []Program{Etcd, APIServer, ControllerManager, Scheduler}
}

// All lists every program that people and tests need.
func All() []Program {
	return append(ControlPlane(), Kubectl, Prebind)
}

// recipe says how a program is built.
type recipe struct {
	module  string   // that carries the program, and whose version goes into the stamp
	pkg     string   // main package
	folder  string   // of the module to build in, relative to the repository's root
	flags   []string // of go build
	stamped bool     // skip the build when the stamp matches
}

// recipeOf returns how to build p, given the modules' versions.
func recipeOf(p Program, versions map[string]string) (recipe, error) {
	kubernetes := recipe{
		module: kubernetesModule, pkg: kubernetesModule + "/cmd/" + string(p), folder: "test",
		flags: []string{"-ldflags", ldflags(versions[kubernetesModule])}, stamped: true,
	}
	switch p {
	case Etcd:
		etcd := kubernetes
		etcd.module, etcd.pkg = etcdModule, etcdModule
		return etcd, nil
	case APIServer, ControllerManager, Scheduler, Kubectl:
		return kubernetes, nil
	case Prebind:
		return recipe{module: rootModule, pkg: "./cmd/prebind", folder: "."}, nil
	case PrebindRace:
		return recipe{module: rootModule, pkg: "./cmd/prebind", folder: ".", flags: []string{"-race"}}, nil
	default:
		return recipe{}, fmt.Errorf("unknown program %q", p)
	}
}

// ldflags gives the Kubernetes programs the version that a release build has;
// without it the API server calls itself v0.0.0-master.
func ldflags(version string) string {
	const pkg = "k8s.io/component-base/version."
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return strings.Join([]string{
		"-s", "-w",
		"-X", pkg + "gitVersion=" + version,
		"-X", pkg + "gitMajor=" + major,
		"-X", pkg + "gitMinor=" + minor,
		"-X", pkg + "gitTreeState=clean",
	}, " ")
}

// stamp identifies what a build of r would produce.
func (r recipe) stamp(versions map[string]string, goVersion string) string {
	return fmt.Sprintf("%s %s\nflags %s\n%s\n", r.pkg, versions[r.module], strings.Join(r.flags, " "), goVersion)
}
