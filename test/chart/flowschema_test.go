package chart_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// The API server serves prebind and the second scheduler by the chart's FlowSchema
// in any namespace, and others not.
func TestFlowSchemaIsTheOneThatServes(t *testing.T) {
	r := install(t, helms()[0], "scheduler: {enabled: true}")
	schemas := r.cp.Client().FlowcontrolV1().FlowSchemas()
	own, err := schemas.Get(t.Context(), r.namespace+"-prebind", metav1.GetOptions{})
	must(t, err)
	if got := own.Spec.PriorityLevelConfiguration.Name; got != "workload-high" { // kube-scheduler's
		t.Errorf("the priority level is %s", got)
	}
	for _, account := range []string{"prebind", "prebind-scheduler"} {
		r.servedBy(account, string(own.UID))
	}
	others, err := schemas.Get(t.Context(), "service-accounts", metav1.GetOptions{})
	must(t, err)
	r.servedBy("default", string(others.UID))
}

// servedBy waits until requests of an account are served by a FlowSchema: the API
// server takes up a new one within seconds.
func (r *release) servedBy(account, schema string) {
	r.t.Helper()
	config, err := r.cp.ServiceAccountConfig(r.t.Context(), r.namespace, account)
	must(r.t, err)
	client, err := rest.HTTPClientFor(config)
	must(r.t, err)
	defer client.CloseIdleConnections()
	got := ""
	err = wait.PollUntilContextTimeout(r.t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/nodes?limit=1", nil)
		if err != nil {
			return false, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return false, err
		}
		got = answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
		return got == schema, answer.Body.Close()
	})
	if err != nil {
		r.t.Errorf("requests of %s are served by the FlowSchema %s, want %s: %v", account, got, schema, err)
	}
}
