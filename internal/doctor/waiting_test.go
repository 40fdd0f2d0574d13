package doctor

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pending makes a pod without a node, and the condition that its scheduler
// left, if reason is not empty.
func pending(name, reason, message string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	if reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
	}
	return pod
}

func TestWaiting(t *testing.T) {
	going := pending("going", "", "")
	going.DeletionTimestamp = &metav1.Time{Time: now}
	tests := map[string]struct {
		pods    []*corev1.Pod
		summary string
		want    []string
	}{
		"none":       {summary: "no pod waits for a node"},
		"one leaves": {pods: []*corev1.Pod{going}, summary: "no pod waits for a node"},
		"harmless": {
			pods:    []*corev1.Pod{pending("a", "", ""), pending("b", corev1.PodReasonUnschedulable, "0/3 nodes"), pending("c", corev1.PodReasonSchedulingGated, "")},
			summary: "3 pods without a node: 1 not tried yet, or in a bind call, 1 fit no node, 1 held by gates",
		},
		"prebind is down": {
			pods: []*corev1.Pod{
				pending("a", corev1.PodReasonSchedulerError, `running Bind: Post "http://127.0.0.1:8888/v1/bind": dial tcp 127.0.0.1:8888: connect: connection refused`),
				pending("b", corev1.PodReasonSchedulerError, `failed bind with extender at URL http://127.0.0.1:8888/v1/bind, code 503`),
			},
			summary: "2 pods without a node: 2 whose bind call failed",
			want:    []string{"fault:shop/a, shop/b|connection refused"},
		},
		"refused": {
			pods: []*corev1.Pod{
				pending("a", corev1.PodReasonSchedulerError, "NoVolume: claim shop/a (class fast): no volume"),
				pending("b", corev1.PodReasonSchedulerError, "running Bind: BindTimeout: claim shop/b: waited 10m"),
				pending("c", corev1.PodReasonSchedulerError, "NoVolume: claim shop/c (class fast): no volume"),
				pending("d", corev1.PodReasonSchedulerError, "something else"),
			},
			summary: "4 pods without a node: 4 refused when bound",
			want:    []string{"advice:shop/b|BindTimeout", "advice:shop/a, shop/c|NoVolume: claim shop/a", "advice:shop/d|something else"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &waiting{refused: map[string][]waitingPod{}}
			for _, pod := range tc.pods {
				w.add(pod)
			}
			if got := w.String(); got != tc.summary {
				t.Errorf("summary %q, want %q", got, tc.summary)
			}
			wantFindings(t, w.judge(), tc.want...)
		})
	}
}
