package registration

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed hints
var hintTexts embed.FS

// Distribution is a kind of cluster whose scheduler can be configured.
type Distribution string

// The distributions that Hints knows.
const (
	Kubeadm Distribution = "kubeadm"
	K3s     Distribution = "k3s"
	RKE2    Distribution = "rke2"
	Kind    Distribution = "kind"
)

// Distributions returns all of them.
func Distributions() []Distribution { return []Distribution{Kubeadm, K3s, RKE2, Kind} }

// Dir is where the configuration and the certificates go on every control-plane
// node.
func (d Distribution) Dir() string {
	switch d {
	case K3s:
		return "/etc/rancher/k3s/prebind"
	case RKE2:
		return "/etc/rancher/rke2/prebind"
	default:
		return "/etc/kubernetes/prebind"
	}
}

// Kubeconfig is the kubeconfig that the distribution makes for its scheduler.
func (d Distribution) Kubeconfig() string {
	switch d {
	case K3s:
		return "/var/lib/rancher/k3s/server/cred/scheduler.kubeconfig"
	case RKE2:
		return "/var/lib/rancher/rke2/server/cred/scheduler.kubeconfig"
	default:
		return "/etc/kubernetes/scheduler.conf"
	}
}

// ConfigFile is where the KubeSchedulerConfiguration goes.
func (d Distribution) ConfigFile() string { return d.Dir() + "/scheduler-config.yaml" }

// Hints tells, step by step, how a configuration that was made or patched gets
// to work on a distribution, how to see that it does, and what to do before
// prebind is removed. found is what Check found in it.
func Hints(d Distribution, found *Found, secret string) (string, error) {
	if !slices.Contains(Distributions(), d) {
		return "", fmt.Errorf("unknown distribution %q, known ones: %s", d, list(Distributions()))
	}
	pages, err := template.ParseFS(hintTexts, "hints/*.tmpl")
	if err != nil {
		return "", fmt.Errorf("parsing the hints: %w", err)
	}
	data := hintData{Config: d.ConfigFile(), Found: found}
	data.namespace(secret)
	data.locate(d)
	var out bytes.Buffer
	for _, page := range []string{"before", string(d), "after"} {
		if err := pages.ExecuteTemplate(&out, page+".tmpl", data); err != nil {
			return "", fmt.Errorf("writing the hints: %w", err)
		}
	}
	return out.String(), nil
}

func list[T ~string](all []T) string {
	var names []string
	for _, one := range all {
		names = append(names, string(one))
	}
	return strings.Join(names, ", ")
}

// hintData is what the pages see.
type hintData struct {
	*Found
	Config            string
	Files             []hintFile
	Mounts            []hintMount
	Namespace, Secret string
}

// hintFile is a certificate file, the Secret's key that it has in the chart, and
// where to write it first.
type hintFile struct{ Path, Key, Local string }

// hintMount is a folder that the scheduler must see.
type hintMount struct{ Name, Dir string }

func (h *hintData) namespace(secret string) {
	if secret == "" {
		secret = "kube-system/prebind-client"
	}
	h.Namespace, h.Secret, _ = strings.Cut(secret, "/")
}

// locate finds the files, and the folders to mount: that of the configuration
// and any other in which there is a file.
func (h *hintData) locate(d Distribution) {
	dirs := []string{d.Dir()}
	for _, f := range []hintFile{{Path: h.CAFile, Key: `ca\.crt`}, {Path: h.CertFile, Key: `tls\.crt`}, {Path: h.KeyFile, Key: `tls\.key`}} {
		if f.Path == "" {
			continue
		}
		if f.Local = f.Path; d == Kind {
			f.Local = "./prebind/" + path.Base(f.Path)
		}
		h.Files = append(h.Files, f)
		if folder := path.Dir(f.Path); !slices.Contains(dirs, folder) {
			dirs = append(dirs, folder)
		}
	}
	for i, folder := range dirs {
		name := "prebind"
		if i > 0 {
			name = fmt.Sprintf("prebind-%d", i)
		}
		h.Mounts = append(h.Mounts, hintMount{name, folder})
	}
}
