package faults_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/test/faultproxy"
)

// scrape is the metrics of the stand's prebind, as Prometheus gets them.
func (f *fixture) scrape() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		_, text, err := send(f.ctx, http.MethodGet, f.on.prebind.OpsURL()+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		return slices.Collect(maps.Values(families)), err
	})
}

// measures checks that the metrics have these samples now, see testkit.Samples.
func (f *fixture) measures(want ...string) {
	f.t.Helper()
	got := testkit.Samples(f.t, f.scrape())
	for _, line := range want {
		if !slices.Contains(got, line) {
			f.t.Errorf("no sample %s", line)
		}
	}
	if f.t.Failed() {
		f.t.Log("samples:\n" + strings.Join(slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "go_") }), "\n"))
	}
}

// What happens in a real cluster is in the metrics: a binding with a conflict, one
// that is throttled and whose Binding's answer is lost, a wait, and a filter call.
func TestMetricsOfAReplica(t *testing.T) {
	t.Parallel()
	own := ownStand(t)

	static := staticScene(t, own)
	static.once(static.claimRefPatch(), static.before(func() error {
		return static.patchVolume(static.small, `{"metadata":{"labels":{"example.com/theirs":"1"}}}`)
	}))
	static.mustBind(static.web, static.node)

	dynamic := dynamicScene(t, own)
	dynamic.once(dynamic.selectedNodePatch(), faultproxy.AnswerRetryAfter(http.StatusTooManyRequests, time.Second))
	dynamic.once(dynamic.binding(), faultproxy.LoseAs(http.StatusGatewayTimeout))
	dynamic.mustBind(dynamic.web, dynamic.node)

	slow := slowScene(t, own)
	answer := slow.waiting()
	slow.eventually("the wait is in the metrics", func() bool {
		got := testkit.Samples(t, slow.scrape(), "prebind_waiting_claims", "prebind_oldest_wait_seconds")
		return slices.Contains(got, "prebind_waiting_claims{cause=provisioner} 1") && !slices.Contains(got, "prebind_oldest_wait_seconds{} 0")
	})
	slow.provisionByHand("data", slow.node)
	slow.succeeded(slow.answer(answer), slow.web, slow.node)
	slow.filter(slow.web, slow.node, slow.other)

	slow.measures(
		"prebind_api_write_retries_total{after=conflict object=persistentvolumeclaims} 0",
		"prebind_api_write_retries_total{after=conflict object=persistentvolumes} 1",
		"prebind_api_write_retries_total{after=conflict object=pods/binding} 0",
		"prebind_api_writes_total{object=persistentvolumeclaims result=success} 2",
		"prebind_api_writes_total{object=persistentvolumes result=conflict} 1",
		"prebind_api_writes_total{object=persistentvolumes result=success} 1",
		"prebind_api_writes_total{object=pods/binding result=server_error} 1",
		"prebind_api_writes_total{object=pods/binding result=success} 2",
		"prebind_bind_call_duration_seconds{outcome=bound} 3",
		"prebind_bind_calls_in_flight{} 0",
		"prebind_bind_calls_total{outcome=bound reason=} 3",
		"prebind_cache_synced{resource=persistentvolumes} 1",
		"prebind_filter_nodes_total{result=passed} 1",
		"prebind_filter_nodes_total{result=refused} 1",
		"prebind_filter_rejections_total{reason=NodeConflict} 1",
		"prebind_late_answers_total{path=/v1/bind} 0",
		"prebind_nodes_call_duration_seconds{path=/v1/filter} 1",
		"prebind_oldest_wait_seconds{} 0",
		"prebind_plugin_duration_seconds{plugin=VolumeBinding result=success stage=preBind} 3",
		"prebind_stage_duration_seconds{result=success stage=preBind} 3",
		"prebind_volume_conflicts_total{cause=taken} 0",
		"prebind_volume_reservations{} 0",
		"prebind_volume_wait_seconds{class="+dynamic.className+" kind=dynamic result=success} 1",
		"prebind_volume_wait_seconds{class="+slow.className+" kind=dynamic result=success} 1",
		"prebind_volume_wait_seconds{class="+static.className+" kind=static result=success} 1",
		"prebind_waiting_claims{cause=provisioner} 0",
		"rest_client_request_retries_total{code=200 verb=PATCH} 1",
		"rest_client_requests_total{code=409 method=PATCH} 1",
		"rest_client_requests_total{code=429 method=PATCH} 1",
		"rest_client_requests_total{code=504 method=POST} 1",
	)
	if free := testkit.Samples(t, slow.scrape(), "prebind_index_free_volumes"); slices.Contains(free, "prebind_index_free_volumes{} 0") {
		t.Errorf("volume %s is free, and not in %q", static.large, free)
	}
}

// filter asks which of the nodes the pod can go to.
func (f *fixture) filter(pod *v1.Pod, nodes ...string) {
	f.t.Helper()
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
	f.must(err)
	code, text, err := send(f.ctx, http.MethodPost, f.on.prebind.URL()+"/v1/filter", body)
	f.must(err)
	if code != http.StatusOK {
		f.t.Fatalf("filter: %d %s", code, text)
	}
}
