package programs

import (
	"cmp"
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
	// HelmV3 and HelmV4 are the two versions of Helm that the chart is for.
	HelmV3 Program = "helm-v3"
	HelmV4 Program = "helm-v4"
	// Alerts tells which of the chart's alerts fire for recorded scrapes; it has
	// Prometheus' rule engine in it.
	Alerts Program = "alerts"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	rootModule       = "github.com/prebind/prebind"
	testModule       = rootModule + "/test"
)

// The versions of Helm. Its modules need other versions of many modules than
// the control plane, so they are built outside of ours.
const (
	helmV3Module  = "helm.sh/helm/v3"
	helmV3Version = "v3.22.0"
	helmV4Module  = "helm.sh/helm/v4"
	helmV4Version = "v4.3.1"
)

// ControlPlane lists the programs that a control plane runs.
func ControlPlane() []Program {
	return []Program{Etcd, APIServer, ControllerManager, Scheduler}
}

// All lists every program that people and tests need.
func All() []Program {
	return append(ControlPlane(), Kubectl, Prebind, HelmV3, HelmV4)
}

// recipe says how a program is built.
type recipe struct {
	module  string   // that carries the program, and whose version goes into the stamp
	version string   // of a module that go.mod does not know: built by itself; empty: go.mod tells it
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
	case Alerts:
		return recipe{module: rootModule, pkg: "./cmd/alerts", folder: "test/monitoring"}, nil
	case HelmV3:
		return helm(helmV3Module, helmV3Version, versions, helmV3Module+"/pkg/lint/rules", helmV3Module+"/pkg/chartutil"), nil
	case HelmV4:
		return helm(helmV4Module, helmV4Version, versions), nil
	default:
		return recipe{}, fmt.Errorf("unknown program %q", p)
	}
}

// helm builds a release of Helm. The packages, like those of a release build,
// are told which Kubernetes `helm template` and `helm lint` take for granted;
// Helm 4 finds that out by itself.
func helm(module, version string, versions map[string]string, packages ...string) recipe {
	flags := []string{"-s", "-w"}
	major, minor := majorMinor(versions[kubernetesModule])
	for _, pkg := range packages {
		flags = append(flags, "-X", pkg+".k8sVersionMajor="+major, "-X", pkg+".k8sVersionMinor="+minor)
	}
	return recipe{
		module: module, version: version, pkg: module + "/cmd/helm", folder: ".",
		flags: []string{"-ldflags", strings.Join(flags, " ")}, stamped: true,
	}
}

// ldflags gives the Kubernetes programs the version that a release build has;
// without it the API server calls itself v0.0.0-master.
func ldflags(version string) string {
	const pkg = "k8s.io/component-base/version."
	major, minor := majorMinor(version)
	return strings.Join([]string{
		"-s", "-w",
		"-X", pkg + "gitVersion=" + version,
		"-X", pkg + "gitMajor=" + major,
		"-X", pkg + "gitMinor=" + minor,
		"-X", pkg + "gitTreeState=clean",
	}, " ")
}

// majorMinor returns the first two numbers of a version such as v1.37.2.
func majorMinor(version string) (major, minor string) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(rest, ".")
	return major, minor
}

// stamp identifies what a build of r would produce.
func (r recipe) stamp(versions map[string]string, goVersion string) string {
	version := cmp.Or(r.version, versions[r.module])
	return fmt.Sprintf("%s %s\nflags %s\n%s\n", r.pkg, version, strings.Join(r.flags, " "), goVersion)
}
