package chart_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prebind/prebind/test/controlplane"
)

// release is an installation of the chart in the control plane.
type release struct {
	t               *testing.T
	cp              *controlplane.ControlPlane
	helm            helm
	name, namespace string
}

// install installs the chart into a namespace of its own, until the test ends.
func install(t *testing.T, h helm, values string) *release {
	t.Helper()
	cp := controlPlane(t)
	namespace, err := cp.CreateNamespace(t.Context(), "chart")
	must(t, err)
	return installIn(t, h, "prebind", namespace, values)
}

func installIn(t *testing.T, h helm, name, namespace, values string) *release {
	t.Helper()
	r := &release{t: t, cp: controlPlane(t), helm: h, name: name, namespace: namespace}
	r.must("install", name, shared.chart, "--values", r.values(values))
	t.Cleanup(r.remove)
	return r
}

// remove uninstalls the release after a test, if it is still there.
func (r *release) remove() {
	_, _ = r.helm.runOn(context.Background(), r.cp.Kubeconfig(), "uninstall", r.name, "--namespace", r.namespace, "--ignore-not-found")
}

func (r *release) values(text string) string {
	r.t.Helper()
	file, err := valuesFile(text)
	must(r.t, err)
	return file
}

// run runs helm on the release's namespace.
func (r *release) run(args ...string) (string, error) {
	return r.helm.runOn(r.t.Context(), r.cp.Kubeconfig(), append(args, "--namespace", r.namespace)...)
}

func (r *release) must(args ...string) string {
	r.t.Helper()
	out, err := r.run(args...)
	must(r.t, err)
	return out
}

func (r *release) secret(name string) map[string][]byte {
	r.t.Helper()
	secret, err := r.cp.Client().CoreV1().Secrets(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	must(r.t, err)
	return secret.Data
}

func (r *release) deployment(name string) *appsv1.Deployment {
	r.t.Helper()
	d, err := r.cp.Client().AppsV1().Deployments(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	must(r.t, err)
	return d
}

// pod returns the pod that runs prebind, from whatever makes it.
func (r *release) pod() corev1.PodSpec {
	r.t.Helper()
	sets, err := r.cp.Client().AppsV1().DaemonSets(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	must(r.t, err)
	if len(sets.Items) == 1 {
		return sets.Items[0].Spec.Template.Spec
	}
	return r.deployment("prebind").Spec.Template.Spec
}

// startPrebind runs prebind as the release says.
func (r *release) startPrebind(ip string) *container {
	r.t.Helper()
	return runContainer(r.t, r.cp, r.namespace, r.pod(), "prebind", ip)
}

// ip is the address of the Service.
func (r *release) ip() string {
	r.t.Helper()
	return clusterIP(r.t, r.cp, r.namespace, "prebind")
}

// notes returns what helm printed after the installation.
func (r *release) notes() string {
	r.t.Helper()
	return r.must("get", "notes", r.name)
}

// between cuts out what stands between two lines.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin+"\n")
	inside, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("no lines %q and %q in\n%s", begin, end, text)
	}
	return inside
}

// writeKubeconfig writes a client configuration as a file.
func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*file, path))
	return path
}

// prebindUser is the name of the release's prebind in the audit log.
func (r *release) prebindUser() string {
	return fmt.Sprintf("system:serviceaccount:%s:prebind", r.namespace)
}
