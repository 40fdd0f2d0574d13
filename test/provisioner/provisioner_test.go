package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

const selectedNode = "volume.kubernetes.io/selected-node"

var (
	plane *controlplane.ControlPlane
	disks *provisioner.Provisioner
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err == nil && code == 0 && !plane.Existing() { // whose connections stay open
		err = goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if plane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := plane.StartScheduler(ctx, controlplane.SchedulerOptions{PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 1}); err != nil {
		return 1, err
	}
	if disks, err = provisioner.Start(ctx, plane, provisioner.Options{Hook: hook, Change: change}); err != nil {
		return 1, err
	}
	defer disks.Stop()
	return m.Run(), nil
}

// hook and change disturb claims that are labelled so.
func hook(_ context.Context, a provisioner.Attempt) error {
	if a.Claim.Labels["hook"] == "fails-once" && a.Number == 1 {
		return errors.New("said the hook")
	}
	return nil
}

func change(a provisioner.Attempt, volume *provisioner.Volume) {
	if text := a.Claim.Labels["change"]; text != "" {
		volume.Labels = map[string]string{"changed": text}
	}
}

// fixture is one namespace with two nodes, a class, and a pod with a claim.
type fixture struct {
	ns    string
	nodes [2]string
}

func newFixture(t *testing.T, class func(*build.ClassBuilder), claim func(*build.ClaimBuilder)) (context.Context, fixture) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ns, err := plane.CreateNamespace(ctx, "test")
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{ns: ns, nodes: [2]string{ns + "-a", ns + "-b"}}
	c := build.Class(ns).Provisioner(disks.Name())
	if class != nil {
		class(c)
	}
	data := build.Claim(ns, "data").Class(ns)
	if claim != nil {
		claim(data)
	}
	pod := build.Pod(ns, "web").Claim("data").NodeSelector("test", ns).Scheduler(plane.SchedulerName())
	err = plane.Create(ctx,
		build.Node(f.nodes[0]).Label("test", ns).Obj(), build.Node(f.nodes[1]).Label("test", ns).Hostname(ns+"-host-b").Obj(),
		c.Obj(), data.Obj(), pod.Obj(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, f
}

// bound waits for the pod and returns it with the claim's volume.
func (f fixture) bound(ctx context.Context, t *testing.T) (*corev1.Pod, *corev1.PersistentVolume) {
	t.Helper()
	pod, err := plane.WaitBound(ctx, f.ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := plane.Client().CoreV1().PersistentVolumeClaims(f.ns).Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume, err := plane.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod, volume
}

func TestVolumeIsMadeOnTheSelectedNodeByItsHostnameLabel(t *testing.T) {
	ctx, f := newFixture(t, nil, func(c *build.ClaimBuilder) { c.Size("3Gi").Label("change", "yes") })
	pod, volume := f.bound(ctx, t)
	want := map[string]string{f.nodes[0]: f.nodes[0], f.nodes[1]: f.ns + "-host-b"}[pod.Spec.NodeName]
	got := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	if got != want {
		t.Errorf("the volume is for host %q, want %q", got, want)
	}
	if size := volume.Spec.Capacity.Storage().String(); size != "3Gi" {
		t.Errorf("the volume has %s, want 3Gi", size)
	}
	if volume.Labels["changed"] != "yes" {
		t.Error("Change was not called")
	}
}

func TestFailureWithReschedulingRemovesTheSelectedNode(t *testing.T) {
	ctx, f := newFixture(t, func(c *build.ClassBuilder) {
		c.Param(provisioner.Failures, "1").Param(provisioner.FailureMessage, "quota exceeded")
	}, nil)
	f.bound(ctx, t)
	second, err := disks.WaitAttempt(ctx, f.ns, "data", 2)
	if err != nil {
		t.Fatal(err)
	}
	if second.Number != 2 {
		t.Errorf("second attempt has number %d", second.Number)
	}
	texts, err := plane.Events(ctx, f.ns, "data", "ProvisioningFailed")
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 || !strings.Contains(texts[0], "quota exceeded") {
		t.Errorf("events %q, want one with the failure's message", texts)
	}
}

func TestFailureInBackgroundKeepsTheSelectedNode(t *testing.T) {
	for _, state := range []string{provisioner.Finished, provisioner.Background} {
		t.Run(state, func(t *testing.T) {
			ctx, f := newFixture(t, func(c *build.ClassBuilder) {
				c.Param(provisioner.Failures, "2").Param(provisioner.FailureState, state)
			}, nil)
			pod, _ := f.bound(ctx, t)
			attempts := disks.Attempts(f.ns, "data")
			if len(attempts) != 3 {
				t.Errorf("%d attempts, want 3", len(attempts))
			}
			for _, a := range attempts {
				if a.Node != pod.Spec.NodeName || a.Claim.Annotations[selectedNode] != a.Node {
					t.Errorf("attempt %d was for node %q, the pod is on %q", a.Number, a.Node, pod.Spec.NodeName)
				}
			}
		})
	}
}

func TestHeldAttemptGoesOnWhenReleased(t *testing.T) {
	ctx, f := newFixture(t, func(c *build.ClassBuilder) { c.Param(provisioner.Hold, "true") }, nil)
	if _, err := disks.WaitAttempt(ctx, f.ns, "data", 1); err != nil {
		t.Fatal(err)
	}
	if pod, err := plane.Client().CoreV1().Pods(f.ns).Get(ctx, "web", metav1.GetOptions{}); err != nil || pod.Spec.NodeName != "" {
		t.Fatalf("the pod is on node %q (%v) while its volume is held", pod.Spec.NodeName, err)
	}
	disks.Release(f.ns, "data")
	disks.Release(f.ns, "data") // a second time is no harm
	f.bound(ctx, t)
}

func TestHookFailsAnAttempt(t *testing.T) {
	ctx, f := newFixture(t, nil, func(c *build.ClaimBuilder) { c.Label("hook", "fails-once") })
	f.bound(ctx, t)
	if n := len(disks.Attempts(f.ns, "data")); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
}

func TestVolumeForAnotherNodeThanSelected(t *testing.T) {
	const elsewhere = "elsewhere"
	if err := plane.Create(t.Context(), build.Node(elsewhere).Taint("keep", corev1.TaintEffectNoSchedule).Obj()); err != nil {
		t.Fatal(err)
	}
	ctx, f := newFixture(t, func(c *build.ClassBuilder) { c.Param(provisioner.OnNode, elsewhere) }, nil)
	claim, err := plane.WaitClaim(ctx, f.ns, "data", "bound", func(c *corev1.PersistentVolumeClaim) bool {
		return c != nil && c.Status.Phase == corev1.ClaimBound
	})
	if err != nil {
		t.Fatal(err)
	}
	volume, err := plane.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; got != elsewhere {
		t.Errorf("the volume is for host %q, want %q", got, elsewhere)
	}
}

func TestImmediateClassGetsAVolumeWithoutANode(t *testing.T) {
	ctx, f := newFixture(t, func(c *build.ClassBuilder) { c.Immediate() }, nil)
	if _, volume := f.bound(ctx, t); volume.Spec.NodeAffinity != nil {
		t.Errorf("the volume is tied to %v", volume.Spec.NodeAffinity)
	}
}
