package doctor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prebind/prebind/internal/doctor"
	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

// podProxy is the path by which the API server is asked for a pod's metrics.
var podProxy = regexp.MustCompile(`/pods/http:([a-z0-9-]+):8889/proxy/metrics$`)

// inCluster returns a kubeconfig for the API server, behind a proxy that plays
// the pods' network: the real API server does not connect to loopback, where
// the prebinds of tests are. metrics has the ops URL of each pod, by its name.
func (f *fixture) inCluster(metrics map[string]string) string {
	f.t.Helper()
	config := shared.cp.AdminConfig()
	target, err := url.Parse(config.Host)
	f.must(err)
	transport, err := rest.TransportFor(config)
	f.must(err)
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := podProxy.FindStringSubmatch(r.URL.Path)
		if found == nil {
			forward.ServeHTTP(w, r)
			return
		}
		ops, err := url.Parse(metrics[found[1]] + "/metrics")
		if err != nil {
			f.t.Error(err)
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL, p.Out.Host = ops, "" }}).ServeHTTP(w, r)
	}))
	f.t.Cleanup(server.Close)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	kubeconfig.CurrentContext = "c"
	text, err := clientcmd.Write(*kubeconfig)
	f.must(err)
	return f.write("kubeconfig", string(text))
}

// replicaPod makes a pod like the chart's, which stands for a prebind.
func (f *fixture) replicaPod(name string, ready v1.ConditionStatus) {
	f.t.Helper()
	pod := build.Pod(f.ns, name).NodeName(f.ns+"-node").Label("app.kubernetes.io/name", "prebind").Label("app.kubernetes.io/component", "binder").Obj()
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "ops", ContainerPort: 8889}}
	f.create(pod)
	pod, err := f.client.CoreV1().Pods(f.ns).Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = v1.PodRunning, "10.1.2.3", []v1.PodIP{{IP: "10.1.2.3"}}
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: ready})
	_, err = f.client.CoreV1().Pods(f.ns).UpdateStatus(f.ctx, pod, metav1.UpdateOptions{})
	f.must(err)
	f.t.Cleanup(func() { // or every later test would find it
		if err := f.client.CoreV1().Pods(f.ns).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			f.t.Error(err)
		}
	})
}

func TestReplicasAreFound(t *testing.T) {
	f := newFixture(t)
	f.create(build.Node(f.ns + "-node").Obj())
	prebind := f.prebind(controlplane.PrebindOptions{})
	f.replicaPod("one", v1.ConditionTrue)
	f.replicaPod("two", v1.ConditionFalse)
	both := f.inCluster(map[string]string{"one": prebind.OpsURL(), "two": prebind.OpsURL()})

	got := f.doctor("--kubeconfig", both, "--before-uninstall")
	got.finding("replicas", doctor.Advice, "pod "+f.ns+"/two", "not ready")
	// Their service account is the one whose rights count.
	got.finding("rbac", doctor.Fault, "system:serviceaccount:"+f.ns+":default has none of the rights")
	if strings.Contains(got.text, "cannot be known") {
		t.Errorf("the metrics of both pods can be read:\n%s", got.text)
	}

	// One that cannot be read is enough not to know.
	one := f.inCluster(map[string]string{"one": prebind.OpsURL(), "two": "http://127.0.0.1:1"})
	f.doctor("--kubeconfig", one, "--before-uninstall").finding("before-uninstall", doctor.Fault, "cannot be known", f.ns+"/two")

	// The API server itself does not get through to them.
	direct := f.doctor("--service-account", account)
	direct.noFault()
	direct.status("wired-in", doctor.Skipped)
}
