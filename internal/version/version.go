package version

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Set by -ldflags -X, and by nothing else. Empty: see Get.
//
//nolint:gochecknoglobals // the linker can set nothing else
var (
	release string
	commit  string
)

// unknown stands where the program does not record a fact.
const unknown = "unknown"

// Info is what the program was built from.
type Info struct {
	// Version of prebind, such as "v0.1.0"; "devel" for a build of a work tree.
	Version string `json:"version"`
	// Commit is the git commit, with "-dirty" behind it if files had changed.
	Commit string `json:"commit"`
	// GoVersion is the toolchain's, such as "go1.26.1".
	GoVersion string `json:"goVersion"`
	// Kubernetes is the version of the client-go library, such as "v0.37.2".
	Kubernetes string `json:"kubernetes"`
	// Platform is the operating system and processor, such as "linux/amd64".
	Platform string `json:"platform"`
}

// Get returns what this program was built from.
func Get() Info {
	build, _ := debug.ReadBuildInfo() // nil, and so all unknown, without modules
	return read(build, release, commit)
}

// read prefers the linker's release and commit over the build's own record.
func read(build *debug.BuildInfo, release, commit string) Info {
	info := Info{
		Version: release, Commit: commit, GoVersion: runtime.Version(), Kubernetes: unknown,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build == nil {
		build = &debug.BuildInfo{}
	}
	if info.Version == "" && build.Main.Version != "(devel)" {
		info.Version = build.Main.Version // set by `go install module@version`
	}
	if info.Version == "" {
		info.Version = "devel"
	}
	if info.Commit == "" {
		info.Commit = revision(build.Settings)
	}
	for _, module := range build.Deps {
		if module.Path != "k8s.io/client-go" {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		info.Kubernetes = module.Version
	}
	return info
}

func revision(settings []debug.BuildSetting) string {
	found, dirty := unknown, ""
	for _, setting := range settings {
		switch {
		case setting.Key == "vcs.revision":
			found = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if found == unknown {
		return unknown
	}
	return found + dirty
}

// String is the text of `prebind version`, one fact a line.
func (i Info) String() string {
	return fmt.Sprintf("prebind    %s\ncommit     %s\ngo         %s\nkubernetes %s\nplatform   %s",
		i.Version, i.Commit, i.GoVersion, i.Kubernetes, i.Platform)
}

// Collector returns the metric prebind_build_info, which is always 1.
func (i Info) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prebind_build_info",
		Help: "Always 1; the labels tell what prebind was built from.",
		ConstLabels: prometheus.Labels{
			"version": i.Version, "commit": i.Commit, "go_version": i.GoVersion, "kubernetes_version": i.Kubernetes,
		},
	}, func() float64 { return 1 })
}
