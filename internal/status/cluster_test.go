package status_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/prebind/prebind/internal/status"
)

// pod is one of prebind's, with the port that the chart calls ops.
func pod(name string, phase v1.PodPhase, port int32) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Status: v1.PodStatus{Phase: phase}}
	p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{Name: "https", ContainerPort: 8443}}}}
	if port != 0 {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{Name: "ops", ContainerPort: port})
	}
	return p
}

// cluster is an API server with one Service and one Deployment called prebind.
// proxied answers what is asked of pods, by the last part of their paths.
func cluster(t *testing.T, proxied map[string]http.HandlerFunc, pods ...v1.Pod) kubernetes.Interface {
	t.Helper()
	answer := func(value any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Error(err)
			}
		}
	}
	app := map[string]string{"app": "prebind"}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/namespaces/kube-system/services/prebind", answer(v1.Service{Spec: v1.ServiceSpec{Selector: app}}))
	mux.HandleFunc("/api/v1/namespaces/kube-system/services/all", answer(v1.Service{}))
	mux.HandleFunc("/apis/apps/v1/namespaces/kube-system/deployments/prebind", answer(appsv1.Deployment{
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: app}},
	}))
	mux.HandleFunc("/api/v1/namespaces/kube-system/pods", func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "app=prebind" {
			t.Errorf("labelSelector is %q", got)
		}
		answer(v1.PodList{Items: pods})(w, r)
	})
	for name, handler := range proxied {
		mux.HandleFunc("/api/v1/namespaces/kube-system/pods/"+name, handler)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func writes(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// What selects the pods is looked up, those that run are asked through the API
// server, and what is wrong with one is told.
func TestPodsAreAskedThroughTheAPIServer(t *testing.T) {
	client := cluster(t, map[string]http.HandlerFunc{
		"http:a:8889/proxy/debug/prebind":    writes(200, `{"kind":"Status","apiVersion":"prebind.dev/v1alpha1","runningTotal":7}`),
		"http:off:9444/proxy/debug/prebind":  writes(404, `{"Error":"it is off; set server.debug: true"}`),
		"http:mine:8889/proxy/debug/prebind": writes(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"pods \"mine\" is forbidden","code":403}`),
		"http:deaf:8889/proxy/debug/prebind": writes(503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","message":"connection refused","code":503}`),
	}, pod("a", v1.PodRunning, 0), pod("off", v1.PodRunning, 9444), pod("pending", v1.PodPending, 0), pod("mine", v1.PodRunning, 0), pod("deaf", v1.PodRunning, 8889))
	want := map[string]string{
		"kube-system/a":    "",
		"kube-system/off":  "asking kube-system/off: it is off; set server.debug: true",
		"kube-system/mine": "asking kube-system/mine: you may not get pods/proxy: ",
		"kube-system/deaf": "where server.opsAddress is on loopback, use `kubectl -n kube-system port-forward pod/deaf 8889` and --address",
	}
	for _, target := range []status.Target{{Namespace: "kube-system", Service: "prebind"}, {Namespace: "kube-system", Deployment: "prebind"}} {
		sources, err := target.Sources(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, source := range sources {
			names = append(names, source.Name)
			got, err := status.Ask(t.Context(), source)
			switch text := want[source.Name]; {
			case text == "" && (err != nil || got.RunningTotal != 7 || got.Instance.Name != source.Name):
				t.Errorf("%s: %+v, %v", source.Name, got, err)
			case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
				t.Errorf("%s: error %v, want %q", source.Name, err, text)
			}
		}
		if diff := cmp.Diff([]string{"kube-system/a", "kube-system/off", "kube-system/mine", "kube-system/deaf"}, names); diff != "" {
			t.Errorf("pods of %s (-want +got):\n%s", target, diff)
		}
	}
}

func TestSourcesSaysWhatIsWrong(t *testing.T) {
	client := cluster(t, nil, pod("pending", v1.PodPending, 0))
	tests := map[string]struct {
		target status.Target
		want   string
	}{
		"no such service":    {status.Target{Namespace: "shop", Service: "prebind"}, "there is no service shop/prebind; --namespace, --service and --deployment say where prebind is"},
		"no such deployment": {status.Target{Namespace: "shop", Deployment: "x"}, "there is no deployment shop/x; --namespace, --service and --deployment say where prebind is"},
		"no selector":        {status.Target{Namespace: "kube-system", Service: "all"}, "service kube-system/all selects no pods by labels"},
		"no pod that runs":   {status.Target{Namespace: "kube-system", Service: "prebind"}, "service kube-system/prebind has no running pod: see `kubectl -n kube-system get pods -l app=prebind`"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sources, err := tc.target.Sources(t.Context(), client)
			if err == nil || err.Error() != tc.want || sources != nil {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}
