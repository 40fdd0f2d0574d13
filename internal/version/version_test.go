package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	clientGo := &debug.Module{Path: "k8s.io/client-go", Version: "v0.37.2"}
	tests := map[string]struct {
		build           *debug.BuildInfo
		release, commit string
		want            Info
	}{
		"nothing recorded": {want: Info{Version: "devel", Commit: "unknown", Kubernetes: "unknown"}},
		"the linker's word goes first": {
			build: &debug.BuildInfo{
				Main: debug.Module{Version: "v0.0.1"}, Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.1.0"}, clientGo},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			},
			release: "v0.2.0", commit: "def",
			want: Info{Version: "v0.2.0", Commit: "def", Kubernetes: "v0.37.2"},
		},
		"installed as a module": {
			build: &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}},
			want:  Info{Version: "v0.1.0", Commit: "unknown", Kubernetes: "unknown"},
		},
		"built in a changed work tree": {
			build: &debug.BuildInfo{
				Main:     debug.Module{Version: "(devel)"},
				Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}},
			},
			want: Info{Version: "devel", Commit: "abc-dirty", Kubernetes: "unknown"},
		},
		"a replaced library": {
			build: &debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.0.0", Replace: clientGo}}},
			want:  Info{Version: "devel", Commit: "unknown", Kubernetes: "v0.37.2"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.want.GoVersion = runtime.Version()
			tc.want.Platform = runtime.GOOS + "/" + runtime.GOARCH
			if diff := cmp.Diff(tc.want, read(tc.build, tc.release, tc.commit)); diff != "" {
				t.Errorf("read() (-want +got):\n%s", diff)
			}
		})
	}
}
