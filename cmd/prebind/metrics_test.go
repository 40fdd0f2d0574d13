package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/internal/version"
	"github.com/prebind/prebind/server"
)

// metricsWorld is the program on a fake API, called over HTTPS.
type metricsWorld struct {
	t        *testing.T
	api      *testkit.API
	registry *prometheus.Registry
	client   *http.Client
	url      string
}

// startForMetrics wires the program as serve does.
func startForMetrics(t *testing.T) *metricsWorld {
	t.Helper()
	w := &metricsWorld{t: t, api: testkit.NewAPI(t, testkit.Node("node-7"), testkit.Node("node-8"), testkit.Class("local"), testkit.Class("fast").Provisions("csi.example.com"))}
	var err error
	if w.registry, err = newRegistry(version.Get()); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Plugins.Permit = []string{binder.ProvisioningLimitName}
	cfg.Volumes.NominateWhileWaiting = true
	engine, err := newBinder(cfg, clients{w.api.Client, w.api.Client, w.api.Client.EventsV1()}, zap.NewNop(), w.registry)
	if err != nil {
		t.Fatal(err)
	}
	files := selfSigned(t)
	srv, err := server.New(server.Config{
		Address: "127.0.0.1:0", OpsAddress: "127.0.0.1:0", TLS: files, Binder: engine.binder, Nodes: engine.nodes, Checks: engine.checks,
		Drain: engine.drain, Registry: w.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	w.client, w.url = &http.Client{Transport: transport}, "https://"+srv.Addr().String()+"/v1/"
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runBoth(ctx, srv.Run, engine.run) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, check := range engine.checks {
		poll(func() bool { return check.Check() == nil })
	}
	return w
}

// call posts args to a verb and decodes the answer, unless the caller hangs up.
func (w *metricsWorld) call(ctx context.Context, verb string, args, answer any) error {
	w.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+verb, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(answer)
}

func (w *metricsWorld) bind(ctx context.Context, pod string) (string, error) {
	w.t.Helper()
	var result extenderv1.ExtenderBindingResult
	err := w.call(ctx, "bind", extenderv1.ExtenderBindingArgs{
		PodName: pod, PodNamespace: testkit.Namespace, PodUID: testkit.UID(pod), Node: "node-7",
	}, &result)
	return result.Error, err
}

// mustBind checks how a bind call ends: "" is success, else the code.
func (w *metricsWorld) mustBind(pod, code string) {
	w.t.Helper()
	got, err := w.bind(w.t.Context(), pod)
	if got, _, _ := strings.Cut(got, ":"); err != nil || got != code {
		w.t.Errorf("binding %s: %q, %v, want %q", pod, got, err, code)
	}
}

// samples lists what has been counted.
func (w *metricsWorld) samples(names ...string) []string {
	w.t.Helper()
	return testkit.Samples(w.t, w.registry, names...)
}

func (w *metricsWorld) gather() []*dto.MetricFamily {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	return families
}

// work has everything happen that is measured: a static and a dynamic claim, a
// conflict, no volume, a wait that the caller gives up, filter and prioritize calls.
func (w *metricsWorld) work() {
	t, api := w.t, w.api
	onNode := func(pv string) testkit.VolumeBuilder { return testkit.Volume(pv).OnHost("node-7") }
	both := testkit.Pod("db-0").Uses("data-0", "log-0")
	api.Put(both, testkit.Claim("data-0"), testkit.Claim("log-0").Class("fast"), onNode("pv-1"),
		testkit.Pod("db-1").Uses("data-1"), testkit.Claim("data-1"),
		testkit.Pod("db-2").Uses("data-2"), testkit.Claim("data-2").Class("fast").Selected("node-7"))
	api.RunPVController()
	api.RunProvisioner(func(*v1.PersistentVolumeClaim) testkit.VolumeBuilder { return onNode("pv-made").Class("fast") })
	api.Before("patch", "persistentvolumes", 1, func(testkit.Request) error {
		api.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"rack": "r1"} })
		return nil
	})
	poll(func() bool {
		return slices.Contains(w.samples("prebind_cache_objects"), "prebind_cache_objects{resource=persistentvolumeclaims} 4") &&
			slices.Contains(w.samples("prebind_index_free_volumes"), "prebind_index_free_volumes{} 1")
	})

	args := extenderv1.ExtenderArgs{Pod: both.Pod, NodeNames: &[]string{"node-7", "node-8"}}
	var result extenderv1.ExtenderFilterResult
	var scores extenderv1.HostPriorityList
	if err := w.call(t.Context(), "filter", args, &result); err != nil || result.NodeNames == nil {
		t.Fatal(result, err)
	}
	if err := w.call(t.Context(), "prioritize", args, &scores); err != nil {
		t.Fatal(err)
	}
	w.mustBind("db-0", "")
	w.mustBind("db-1", "NoVolume")
	w.mustBind("db-9", "PodNotFound")

	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.bind(ctx, "db-2")
		ended <- err
	}()
	poll(func() bool {
		return slices.Contains(w.samples("prebind_waiting_claims"), "prebind_waiting_claims{cause=provisioner} 1")
	})
	hangUp()
	if err := <-ended; err == nil {
		t.Error("the call that nobody waits for was answered")
	}
	poll(func() bool {
		return slices.Contains(w.samples("prebind_late_answers_total"), "prebind_late_answers_total{path=/v1/bind} 1") &&
			slices.Contains(w.samples("prebind_bind_calls_in_flight"), "prebind_bind_calls_in_flight{} 0")
	})
	askRealAPI(t)
}

// askRealAPI sends a request as client-go does, which has to be sent twice.
func askRealAPI(t *testing.T) {
	t.Helper()
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		emptyCluster(w, r)
	}))
	defer api.Close()
	client, err := newClients(write(t, "kubeconfig", fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n", api.URL)),
		config.Default().ClientConnection, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.bindings.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestMetrics has the whole program at work and looks at all that it exports.
func TestMetrics(t *testing.T) {
	w := startForMetrics(t)
	w.work()
	families := w.gather()
	t.Run("are documented, and nothing else is", func(t *testing.T) {
		if differences := compare(t, families); len(differences) > 0 {
			t.Errorf("docs/metrics.md:\n%s", strings.Join(differences, "\n"))
		}
	})
	t.Run("are well made", func(t *testing.T) {
		problems, err := promlint.NewWithMetricFamilies(ours(families)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
	})
	t.Run("name no object", func(t *testing.T) { checkNames(t, w.api, families) })
	t.Run("have native histograms", func(t *testing.T) { checkHistograms(t, families) })
	t.Run("count what happened", func(t *testing.T) {
		got := w.samples()
		for _, want := range []string{
			"prebind_api_writes_total{object=persistentvolumes result=conflict} 1",
			"prebind_api_writes_total{object=persistentvolumes result=success} 1",
			"prebind_api_writes_total{object=persistentvolumeclaims result=success} 1",
			"prebind_api_writes_total{object=pods/binding result=success} 1",
			"prebind_api_write_retries_total{after=conflict object=persistentvolumes} 1",
			"prebind_bind_calls_total{outcome=bound reason=} 1",
			"prebind_bind_calls_total{outcome=error reason=CallerGone} 1",
			"prebind_bind_calls_total{outcome=error reason=NoVolume} 1",
			"prebind_cache_synced{resource=nodes} 1",
			"prebind_filter_nodes_total{result=passed} 1",
			"prebind_filter_nodes_total{result=refused} 1",
			"prebind_filter_rejections_total{reason=NoVolume} 1",
			"prebind_provisioning_limit_in_use{class=fast} 1", // that of db-2
			"prebind_provisioning_limit_waiting{class=fast} 0",
			"prebind_volume_wait_seconds{class=fast kind=dynamic result=error} 1",
			"prebind_volume_wait_seconds{class=fast kind=dynamic result=success} 1",
			"prebind_volume_wait_seconds{class=local kind=static result=success} 1",
			"prebind_waiting_claims{cause=provisioner} 0",
			"rest_client_requests_total{code=429 method=GET} 1",
			"rest_client_requests_total{code=200 method=GET} 1",
			"rest_client_request_retries_total{code=200 verb=GET} 1",
			"rest_client_request_duration_seconds{verb=GET} 1",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
			}
		}
	})
}

// checkNames looks for names and UIDs of objects in all labels. Of classes alone
// there may be the name, in the label "class".
func checkNames(t *testing.T, api *testkit.API, families []*dto.MetricFamily) {
	names := []string{testkit.Namespace, "csi.example.com"}
	for _, resource := range []string{"pods", "nodes", "persistentvolumeclaims", "persistentvolumes"} {
		if len(api.Names(resource)) == 0 {
			t.Errorf("there are no %s", resource)
		}
		names = append(names, api.Names(resource)...) // UIDs have the name in them
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				named := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(label.GetValue(), name) })
				class := slices.Contains(api.Names("storageclasses"), label.GetValue()) && label.GetName() != "class"
				if named || class {
					t.Errorf("%s: %s=%q is the name of an object", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}

func checkHistograms(t *testing.T, families []*dto.MetricFamily) {
	for _, family := range ours(families) {
		for _, metric := range family.GetMetric() {
			histogram := metric.GetHistogram()
			if histogram == nil {
				continue
			}
			if len(histogram.GetBucket()) == 0 {
				t.Errorf("%s has no classic buckets", family.GetName())
			}
			if histogram.GetZeroThreshold() == 0 {
				t.Errorf("%s has no native buckets", family.GetName())
			}
		}
	}
}

// Each start of the program in one process has its own metrics of requests.
func TestRequestsAreCountedByTheLastRegistry(t *testing.T) {
	for range 2 {
		registry, err := newRegistry(version.Get())
		if err != nil {
			t.Fatal(err)
		}
		askRealAPI(t)
		if lines := testkit.Samples(t, registry, "rest_client_requests_total"); !slices.Contains(lines, "rest_client_requests_total{code=200 method=GET} 1") {
			t.Errorf("requests: %q", lines)
		}
	}
}
