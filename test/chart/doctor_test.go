package chart_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// `helm test` says whether prebind can be called, and under which rights it runs.
func TestHelmTest(t *testing.T) {
	eachHelm(t, func(t *testing.T, h helm) {
		r := install(t, h, fmt.Sprintf("service: {clusterIP: %s}", freeIP(t, 10+h.major)))
		replicas := r.runReplicas()
		if out, err := r.test(); err != nil {
			t.Errorf("a good installation: %v\n%s", err, out)
		}

		// A right is missing.
		role := r.namespace + ":prebind"
		must(t, r.cp.Client().RbacV1().ClusterRoleBindings().Delete(t.Context(), role, metav1.DeleteOptions{}))
		out, err := r.test()
		if err == nil || !strings.Contains(out, "rights") {
			t.Errorf("without the ClusterRoleBinding: %v, want the missing rights in\n%s", err, out)
		}
		r.must("upgrade", r.name, shared.chart, "--reuse-values")

		for _, replica := range replicas {
			replica.kill()
		}
		out, err = r.test()
		if err == nil || !strings.Contains(out, r.ip()+":8443") {
			t.Errorf("without prebind: %v, want the endpoint in\n%s", err, out)
		}
	})
}

// Another release is no business of a release's test: neither do its replicas
// count, nor are its rights the ones to check.
func TestHelmTestBesideAnotherRelease(t *testing.T) {
	h := helms()[0]
	r := install(t, h, fmt.Sprintf("service: {clusterIP: %s}", freeIP(t, 15)))
	r.runReplicas()
	other := install(t, h, "{}") // nobody runs its pods
	eventually(t, "the other release has pods", func(ctx context.Context) error {
		pods, err := r.cp.Client().CoreV1().Pods(other.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) == 0 {
			return errors.New("none yet")
		}
		return err
	})
	out, err := r.test()
	if err != nil {
		t.Errorf("a good installation: %v\n%s", err, out)
	}
	if account := "system:serviceaccount:" + r.namespace + ":prebind has the "; !strings.Contains(out, account) {
		t.Errorf("its own rights are not checked, %q is missing in\n%s", account, out)
	}
}

// test runs `helm test` and the pod that it creates. It returns what the pod's
// container has written.
func (r *release) test() (string, error) {
	r.t.Helper()
	pods := r.cp.Client().CoreV1().Pods(r.namespace)
	before, err := pods.Get(r.t.Context(), "prebind-test", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := r.run("test", r.name)
		result <- err
	}()
	var pod *corev1.Pod
	err = wait.PollUntilContextTimeout(r.t.Context(), probeInterval, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-result:
			return false, errors.Join(errors.New("it ended before its pod was there"), err)
		default:
		}
		pod, err = pods.Get(ctx, "prebind-test", metav1.GetOptions{})
		return err == nil && pod.UID != before.UID && pod.DeletionTimestamp == nil, nil
	})
	if err != nil {
		r.t.Fatalf("helm test: %v", err)
	}
	c := newContainer(r.t, r.cp, r.namespace, pod.Spec, "doctor", "")
	c.run()
	<-c.done
	out, err := os.ReadFile(c.log)
	must(r.t, err)
	r.finish(pod, c.cmd.ProcessState.ExitCode())
	return string(out), <-result
}

// finish reports how a pod's container has ended, as its kubelet would.
func (r *release) finish(pod *corev1.Pod, code int) {
	r.t.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	patch := fmt.Appendf(nil, `{"status": {"phase": %q}}`, phase)
	_, err := r.cp.Client().CoreV1().Pods(r.namespace).Patch(r.t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(r.t, err)
}
