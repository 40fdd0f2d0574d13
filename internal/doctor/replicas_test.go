package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOwnPods: with two installations in the cluster, the other one's pods are
// none of ours.
func TestOwnPods(t *testing.T) {
	tests := map[string]struct {
		account types.NamespacedName
		user    string
		want    []string
	}{
		"a person":                        {user: "jo", want: []string{"a", "b"}},
		"a person, for an account":        {user: "jo", account: types.NamespacedName{Namespace: "b", Name: "prebind"}, want: []string{"b"}},
		"one that no pod has":             {user: "jo", account: types.NamespacedName{Namespace: "c", Name: "prebind"}},
		"one of them":                     {user: "system:serviceaccount:a:prebind", want: []string{"a"}},
		"some other account, from a pod":  {user: "system:serviceaccount:a:default", want: []string{"a", "b"}},
		"one of them, for another's pods": {user: "system:serviceaccount:a:prebind", account: types.NamespacedName{Namespace: "b", Name: "prebind"}, want: []string{"b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for _, namespace := range []string{"a", "b"} {
				pods = append(pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prebind"},
					Spec:       corev1.PodSpec{ServiceAccountName: "prebind"},
				})
			}
			e := &exam{Options: Options{ServiceAccount: tc.account}, cluster: &cluster{user: tc.user}}
			var got []string
			for _, pod := range e.ownPods(pods) {
				got = append(got, pod.Namespace)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}
