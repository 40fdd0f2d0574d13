package chart_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

// runReplicas does what a cluster does after an installation: its scheduler
// binds prebind's pods to a node, whose kubelet runs them and reports them
// ready. The Service leads to the first one.
func (r *release) runReplicas() []*container {
	r.t.Helper()
	must(r.t, r.cp.StartScheduler(r.t.Context(), controlplane.SchedulerOptions{}))
	worker := fmt.Sprintf("%s-worker-%d", r.namespace, r.helm.major)
	must(r.t, r.cp.Create(r.t.Context(), build.Node(worker).Obj()))
	r.t.Cleanup(func() {
		_ = r.cp.Client().CoreV1().Nodes().Delete(context.Background(), worker, metav1.DeleteOptions{})
	})
	pods := r.cp.Client().CoreV1().Pods(r.namespace)
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=binder,app.kubernetes.io/instance=" + r.name}
	r.t.Cleanup(func() { // as the kubelet does in the end
		_ = pods.DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, selector)
	})
	var replicas []corev1.Pod
	eventually(r.t, "all replicas are bound", func(ctx context.Context) error {
		list, err := pods.List(ctx, selector)
		if err != nil {
			return err
		}
		replicas = nil
		for _, pod := range list.Items {
			if pod.Spec.NodeName == worker && pod.DeletionTimestamp == nil {
				replicas = append(replicas, pod)
			}
		}
		if want := int(*r.deployment("prebind").Spec.Replicas); len(replicas) != want {
			return fmt.Errorf("%d pods are bound to %s, want %d", len(replicas), worker, want)
		}
		return nil
	})
	var running []*container
	for i, pod := range replicas {
		ip := r.ip()
		if i > 0 {
			ip = freeIP(r.t, 200+i)
		}
		running = append(running, runContainer(r.t, r.cp, r.namespace, pod.Spec, "prebind", ip))
		const ready = `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`
		_, err := pods.Patch(r.t.Context(), pod.Name, types.StrategicMergePatchType, []byte(ready), metav1.PatchOptions{}, "status")
		must(r.t, err)
	}
	return running
}
