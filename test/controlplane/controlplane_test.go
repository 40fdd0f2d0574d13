package controlplane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func namespace(ctx context.Context, t *testing.T) string {
	t.Helper()
	name, err := plane.CreateNamespace(ctx, "test")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPodWithALocalVolumeIsBoundByTheStockScheduler(t *testing.T) {
	ctx := testContext(t)
	ns := namespace(ctx, t)
	node := ns + "-node"
	err := plane.Create(ctx,
		build.Node(node).Obj(),
		build.Class(ns).Obj(),
		build.Volume(ns+"-disk").Class(ns).OnNode(node).Obj(),
		build.Claim(ns, "data").Class(ns).Obj(),
		build.Pod(ns, "web").Claim("data").OnHost(node).Scheduler(plane.SchedulerName()).Obj(),
	)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := plane.WaitBound(ctx, ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != node {
		t.Errorf("the pod is on node %q, want %q", pod.Spec.NodeName, node)
	}
	claim, err := plane.Client().CoreV1().PersistentVolumeClaims(ns).Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Spec.VolumeName != ns+"-disk" {
		t.Errorf("the claim is bound to %q", claim.Spec.VolumeName)
	}
}

func TestErrorOfAWaitTellsTheEventsOfThePod(t *testing.T) {
	ctx := testContext(t)
	ns := namespace(ctx, t)
	pod := build.Pod(ns, "web").NodeSelector("no", "where").Scheduler(plane.SchedulerName()).Obj()
	if err := plane.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := awaitEvent(ctx, ns, "web", "FailedScheduling"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := plane.WaitBound(short, ns, "web")
	if err == nil || !strings.Contains(err.Error(), "FailedScheduling") {
		t.Errorf("error = %v, want one with the FailedScheduling event", err)
	}
}

func awaitEvent(ctx context.Context, ns, name, reason string) error {
	for {
		texts, err := plane.Events(ctx, ns, name, reason)
		if err != nil || len(texts) > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestKilledAPIServerAndEtcdRecover(t *testing.T) {
	skipExisting(t)
	ctx := testContext(t)
	ns := namespace(ctx, t)
	for _, process := range []*controlplane.Process{plane.APIServer(), plane.Etcd()} {
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		if process.Running() || process.Err() == nil {
			t.Errorf("%s: Running = %v, Err = %v after Kill", process.Name(), process.Running(), process.Err())
		}
	}
	if _, err := plane.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err == nil {
		t.Error("a killed API server answered")
	}
	for _, process := range []*controlplane.Process{plane.Etcd(), plane.APIServer()} {
		if err := process.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := plane.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace is lost after a restart: %v", err)
	}
	node := ns + "-node"
	pod := build.Pod(ns, "after").OnHost(node).Scheduler(plane.SchedulerName()).Obj()
	if err := plane.Create(ctx, build.Node(node).Obj(), pod); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.WaitBound(ctx, ns, "after"); err != nil {
		t.Error(err)
	}
}

func TestFrozenControllerManagerDoesNothingUntilItThaws(t *testing.T) {
	skipExisting(t)
	ctx := testContext(t)
	if err := plane.ControllerManager().Freeze(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if name, err := plane.CreateNamespace(short, "frozen"); err == nil {
		t.Errorf("namespace %s got its service account from a frozen controller manager", name)
	}
	if err := plane.ControllerManager().Thaw(); err != nil {
		t.Fatal(err)
	}
	namespace(ctx, t)
}

func TestProgramThatCannotStartTellsTheEndOfItsLog(t *testing.T) {
	skipExisting(t)
	ctx := testContext(t)
	err := plane.StartSchedulerWithConfig(ctx, []byte("kind: Nonsense\n"))
	if err == nil || !strings.Contains(err.Error(), "it ended") || !strings.Contains(err.Error(), "Nonsense") {
		t.Errorf("error = %v, want one with the end of the log", err)
	}
	if err := plane.StartScheduler(ctx, controlplane.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAuditCountsTheWritesOfOneUser(t *testing.T) {
	skipExisting(t)
	ctx := testContext(t)
	ns := namespace(ctx, t)
	config, err := plane.UserConfig("alice", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	claims := alice.CoreV1().PersistentVolumeClaims(ns)
	claim, err := claims.Create(ctx, build.Claim(ns, "data").Obj(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Labels = map[string]string{"a": "b"}
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("update of a stale claim: %v, want a conflict", err)
	}
	tests := map[string]struct {
		filter controlplane.AuditFilter
		want   int
	}{
		"all her writes":        {controlplane.AuditFilter{User: "alice", Verbs: controlplane.Writes()}, 3},
		"those that conflicted": {controlplane.AuditFilter{User: "alice", Code: 409}, 1},
		"updates of the claim": {controlplane.AuditFilter{
			User: "alice", Verbs: []string{"update"}, Resource: "persistentvolumeclaims", Namespace: ns, Name: "data",
		}, 2},
		"nobody's": {controlplane.AuditFilter{User: "bob"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			events, err := plane.Audit(ctx, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != test.want {
				t.Errorf("%d requests, want %d:\n%s", len(events), test.want, controlplane.DescribeAudit(events))
			}
		})
	}
}

func TestStatefulSetComesUpInOrderAndGoesAwayWithKubelets(t *testing.T) {
	ctx := testContext(t)
	stop, err := plane.RunKubelets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ns := namespace(ctx, t)
	node := ns + "-node"
	set := build.StatefulSet(ns, "db").Replicas(2).Pods(func(p *build.PodBuilder) {
		p.OnHost(node).Scheduler(plane.SchedulerName())
	})
	if err := plane.Create(ctx, build.Node(node).Obj(), set.Obj()); err != nil {
		t.Fatal(err)
	}
	running := func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodRunning }
	if _, err := plane.WaitPod(ctx, ns, "db-1", "running", running); err != nil {
		t.Fatal(err)
	}
	if err := plane.Client().CoreV1().Pods(ns).Delete(ctx, "db-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	replaced := func(pod *corev1.Pod) bool { return running(pod) && pod.DeletionTimestamp == nil }
	if _, err := plane.WaitPod(ctx, ns, "db-1", "replaced", replaced); err != nil {
		t.Fatal(err)
	}
}

func TestServiceAccountHasOnlyTheRightsItWasGiven(t *testing.T) {
	ctx := testContext(t)
	if err := plane.ApplyManifests(ctx, "../../examples/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	config, err := plane.ServiceAccountConfig(ctx, "kube-system", "prebind")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("listing volumes: %v", err)
	}
	if err := client.CoreV1().PersistentVolumes().Delete(ctx, "any", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a volume: %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
}

func TestExistingClusterIsNotBroken(t *testing.T) {
	skipExisting(t)
	ctx := testContext(t)
	t.Setenv(controlplane.KubeconfigVariable, plane.Kubeconfig())
	existing, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"kill":   existing.APIServer().Kill(),
		"stop":   existing.Etcd().Stop(ctx),
		"freeze": existing.ControllerManager().Freeze(),
	} {
		if !errors.Is(err, controlplane.ErrExistingCluster) {
			t.Errorf("%s: error = %v, want ErrExistingCluster", name, err)
		}
	}
	if _, err := existing.Audit(ctx, controlplane.AuditFilter{}); !errors.Is(err, controlplane.ErrExistingCluster) {
		t.Errorf("audit: error = %v, want ErrExistingCluster", err)
	}
	if err := existing.StartScheduler(ctx, controlplane.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	ns := namespace(ctx, t)
	node := ns + "-node"
	pod := build.Pod(ns, "web").OnHost(node).Scheduler(existing.SchedulerName()).Obj()
	if err := existing.Create(ctx, build.Node(node).Obj(), pod); err != nil {
		t.Fatal(err)
	}
	if _, err := existing.WaitBound(ctx, ns, "web"); err != nil {
		t.Error(err)
	}
	if err := existing.Stop(); err != nil {
		t.Error(err)
	}
	if !plane.APIServer().Running() {
		t.Error("stopping the existing cluster ended its API server")
	}
}
