package testkit_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPIRefusesWhatWasDecidedOnAnotherVersion(t *testing.T) {
	api := testkit.NewAPI(t, testkit.Volume("pv-1"))
	volumes := api.Client.CoreV1().PersistentVolumes()
	stale := api.Volume("pv-1")
	api.ChangeVolume("pv-1", func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"x": "y"} })
	patch := func(version, uid string) error {
		body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"uid":%q,"annotations":{"a":"b"}}}`, version, uid)
		_, err := volumes.Patch(t.Context(), "pv-1", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	now := api.Volume("pv-1")
	if _, err := volumes.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	if err := patch(stale.ResourceVersion, string(stale.UID)); !apierrors.IsConflict(err) {
		t.Errorf("stale patch: %v", err)
	}
	if err := patch(now.ResourceVersion, "other"); !apierrors.IsInvalid(err) {
		t.Errorf("patch of another uid: %v", err)
	}
	if err := patch(now.ResourceVersion, string(now.UID)); err != nil {
		t.Errorf("patch: %v", err)
	}
	want := now.DeepCopy()
	want.ResourceVersion, want.Annotations = api.Volume("pv-1").ResourceVersion, map[string]string{"a": "b"}
	if diff := cmp.Diff(want, api.Volume("pv-1")); diff != "" || want.ResourceVersion == now.ResourceVersion {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"update persistentvolumes/pv-1 (409)", "patch persistentvolumes/pv-1 (409)", "patch persistentvolumes/pv-1 (422)", "patch persistentvolumes/pv-1",
	}, api.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAPIRunsRulesAtTheNthRequest(t *testing.T) {
	api := testkit.NewAPI(t, testkit.Node("n1"))
	var got []string
	note := func(text string, err error) func(testkit.Request) error {
		return func(testkit.Request) error { got = append(got, text); return err }
	}
	api.Before("get", "nodes", 2, note("before the second", errors.New("no")))
	api.Before("get", "nodes", 0, note("before", nil))
	api.After("get", "nodes", 1, note("after the first", nil))
	for range 3 {
		_, _ = api.Client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	}
	if diff := cmp.Diff([]string{"before", "after the first", "before the second", "before"}, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get nodes/n1", "get nodes/n1 (no)", "get nodes/n1"}, api.Reads()); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

func TestAPIWatchesUnderASelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testkit.NewAPI(t, testkit.Pod("a"), testkit.Pod("b").OnNode("n1"))
		w, err := api.Client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		go func() {
			for event := range w.ResultChan() {
				pod, _ := event.Object.(*v1.Pod)
				got = append(got, fmt.Sprint(event.Type, " ", pod.Name, " ", pod.UID))
			}
		}()
		api.Put(testkit.Pod("b").WithUID("new"))
		synctest.Wait()
		api.Hold("pods")
		api.ChangePod("a", func(p *v1.Pod) { p.Spec.NodeName = "n1" })
		synctest.Wait()
		seen := len(got)
		api.Release("pods")
		api.Put(testkit.Pod("b").WithUID("newer"))
		synctest.Wait()
		w.Stop()
		synctest.Wait()
		if diff := cmp.Diff([]string{"ADDED a uid-a", "ADDED b new", "DELETED a uid-a", "DELETED b new", "ADDED b newer"}, got); diff != "" || seen != 2 {
			t.Errorf("seen before release: %d, want 2; events (-want +got):\n%s", seen, diff)
		}
	})
}

func TestAPIBindsPodsAsTheRealOneDoes(t *testing.T) {
	tests := map[string]struct {
		pod  testkit.PodBuilder
		want func(error) bool
	}{
		"unassigned":  {testkit.Pod("a"), func(err error) bool { return err == nil }},
		"another uid": {testkit.Pod("a").WithUID("other"), apierrors.IsConflict},
		"assigned":    {testkit.Pod("a").OnNode("n1"), apierrors.IsConflict},
		"terminating": {testkit.Pod("a").Terminating(), apierrors.IsConflict},
		"gated":       {testkit.Pod("a").Gated("wait"), apierrors.IsConflict},
		"missing":     {testkit.Pod("b"), apierrors.IsNotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := testkit.NewAPI(t, tc.pod)
			err := api.Client.CoreV1().Pods("shop").Bind(t.Context(), &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: testkit.UID("a")},
				Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
			}, metav1.CreateOptions{})
			if !tc.want(err) {
				t.Errorf("error %v", err)
			}
			if err == nil && api.Pod("a").Spec.NodeName != "n1" {
				t.Error("the pod is not assigned")
			}
		})
	}
}
