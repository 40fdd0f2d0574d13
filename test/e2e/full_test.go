package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// In mode full prebind alone tells the scheduler what volumes have to say. The
// workloads of TestScheduler run in it too.
func TestModeFull(t *testing.T) {
	for name, opts := range map[string]controlplane.SchedulerOptions{
		"names":       {},
		"whole nodes": {WholeNodes: true},
	} {
		t.Run(name, func(t *testing.T) {
			opts.Mode, opts.URL = controlplane.ModeFull, shared.prebind.URL()
			if err := shared.cp.StartScheduler(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			for name, run := range map[string]func(*testing.T){
				"the node with the volume is found": testFindsTheNode,
				"reasons":                           testReasons,
				"nothing is preempted in vain":      testNothingPreempted,
				"more pods than volumes":            testScarceVolumes,
				"nodes that are not shown":          testUnseenNodes,
			} {
				t.Run(name, run)
			}
		})
	}
	if err := shared.cp.StopScheduler(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Of six nodes one has a volume for each pod.
func testFindsTheNode(t *testing.T) {
	f := newScheduled(t, controlplane.ModeFull, 6)
	f.volume(newVolume("small", f.local, f.nodes[1]))
	f.volume(newVolume("large", f.local, f.nodes[4], capacity("10Gi")))
	dynamic := f.dynamic("dynamic")
	f.claim(newClaim("small", f.local))
	f.claim(newClaim("large", f.local, func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("5Gi")
	}))
	f.claim(newClaim("new", dynamic))
	f.pod(newPod("large", "", "large", "new"))
	f.bound("large")
	f.pod(newPod("small", "", "small"))
	f.bound("small")
	for pod, node := range map[string]string{"small": f.nodes[1], "large": f.nodes[4]} {
		if got := f.getPod(pod).Spec.NodeName; got != node {
			t.Errorf("pod %s is on %s, want %s", pod, got, node)
		}
	}
	// A bound claim takes its next pod to the same node.
	f.pod(newPod("again", "", "large"))
	f.bound("again")
	if got := f.getPod("again").Spec.NodeName; got != f.nodes[4] {
		t.Errorf("pod again is on %s, want %s", got, f.nodes[4])
	}
}

// The event counts nodes by reason, in kube-scheduler's own words, and the pod
// comes back as soon as the reason has gone.
func testReasons(t *testing.T) {
	f := newScheduled(t, controlplane.ModeFull, 3)
	f.claim(newClaim("unbound", f.class(newClass("now", "nobody.example", "Immediate"))))
	full := f.class(newLocalClass("full"))
	f.claim(newClaim("none", full))
	there := f.volume(newVolume("there", f.local, f.nodes[0]))
	f.claim(newClaim("there", f.local))
	f.pod(newPod("first", "", "there"))
	f.bound("first")
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.pod(newPod("both", "", "there", "none"))
	for pod, claim := range map[string]string{"missing": "late", "unbound": "unbound", "none": "none"} {
		f.pod(newPod(pod, "", claim))
	}
	f.eventWith("missing", `persistentvolumeclaim "late" not found`)
	f.eventWith("unbound", "pod has unbound immediate PersistentVolumeClaims")
	f.eventWith("none", "3 node(s) didn't find available persistent volumes to bind")
	f.eventWith("both", "1 node(s) didn't find available persistent volumes to bind",
		"2 node(s) didn't find available persistent volumes to bind, node(s) didn't match PersistentVolume's node affinity")

	f.volume(newVolume("v1", f.local, f.nodes[1]))
	f.claim(newClaim("late", f.local))
	f.bound("missing")
	f.volume(newVolume("v2", full, f.nodes[2]))
	f.bound("none")
	if pv := f.getClaim("there").Spec.VolumeName; pv != there.Name {
		t.Errorf("claim there is bound to %s", pv)
	}
}

// A pod of high priority finds no volume on a full node: deleting the pods there
// would free none.
func testNothingPreempted(t *testing.T) {
	f := newScheduled(t, controlplane.ModeFull, 1)
	class, err := f.client.SchedulingV1().PriorityClasses().Create(f.ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: f.name("high")}, Value: 1000,
	}, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.SchedulingV1().PriorityClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
	})
	f.volume(newVolume("taken", f.local, f.nodes[0]))
	f.claim(newClaim("low", f.local))
	f.claim(newClaim("high", f.local))
	f.pod(newPod("low", "", "low"))
	f.bound("low")
	high := newPod("high", "", "high")
	high.Spec.PriorityClassName = class.Name
	f.pod(high)
	f.eventWith("high", "1 node(s) didn't find available persistent volumes to bind", "Preemption is not helpful for scheduling")
	if pod := f.getPod("low"); pod.DeletionTimestamp != nil {
		t.Error("pod low was preempted")
	}
	if node := f.getPod("high").Status.NominatedNodeName; node != "" {
		t.Errorf("pod high was promised node %s", node)
	}
}

// 100 pods at once over 60 volumes on 20 nodes: 60 are bound, and the rest once
// there are volumes.
func testScarceVolumes(t *testing.T) {
	f := newScheduled(t, controlplane.ModeFull, 20)
	const pods, pvs = 100, 60
	for i := range pvs {
		f.volumeNoWait(newVolume(fmt.Sprint("v", i), f.local, f.nodes[i%20]))
	}
	f.availables(pvs)
	before := f.bindCalls()
	for i := range pods {
		f.claim(newClaim(fmt.Sprint("p", i), f.local))
		f.pod(newPod(fmt.Sprint("p", i), "", fmt.Sprint("p", i)))
	}
	f.eventually("as many pods are bound as there are volumes", func() bool { return len(f.boundPods()) == pvs })
	t.Logf("bind calls for %d bound pods: %v", pvs, difference(before, f.bindCalls()))
	for i := range pods - pvs {
		f.volumeNoWait(newVolume(fmt.Sprint("late", i), f.local, f.nodes[i%20]))
	}
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprint("p", i))
	}
	f.bound(names...)
	t.Logf("and over all: %v", difference(before, f.bindCalls()))
}

// Of 300 nodes the scheduler shows half, and each pod's volume is on one.
func testUnseenNodes(t *testing.T) {
	f := newScheduled(t, controlplane.ModeFull, 300)
	want := map[string]string{}
	var pods []string
	for i, node := range []int{10, 160, 290} {
		name := fmt.Sprint("rare", i)
		class := f.class(newLocalClass(name))
		f.volume(newVolume(name, class, f.nodes[node]))
		f.claim(newClaim(name, class))
		f.pod(newPod(name, "", name))
		want[name], pods = f.nodes[node], append(pods, name)
	}
	f.bound(pods...)
	for name, node := range want {
		if got := f.getPod(name).Spec.NodeName; got != node {
			t.Errorf("pod %s is on %s, want %s", name, got, node)
		}
	}
}

// availables waits for n free volumes of the class local.
func (f *scheduled) availables(n int) {
	f.t.Helper()
	f.eventually(fmt.Sprint(n, " volumes are available"), func() bool {
		list, err := f.client.CoreV1().PersistentVolumes().List(f.ctx, metav1.ListOptions{})
		f.must(err)
		free := 0
		for _, pv := range list.Items {
			if pv.Spec.StorageClassName == f.local && pv.Status.Phase == v1.VolumeAvailable {
				free++
			}
		}
		return free == n
	})
}

func (f *scheduled) boundPods() []string {
	f.t.Helper()
	list, err := f.client.CoreV1().Pods(f.ns).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	var names []string
	for _, pod := range list.Items {
		if pod.Spec.NodeName != "" {
			names = append(names, pod.Name)
		}
	}
	return names
}

// bindCalls returns the lines of prebind's metrics that count bind calls, by
// their labels.
func (f *scheduled) bindCalls() map[string]string {
	f.t.Helper()
	text, err := shared.metrics(f.ctx)
	f.must(err)
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		if labels, count, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(labels, "prebind_bind_calls_total{") {
			lines[labels+"}"] = count
		}
	}
	return lines
}

// difference lists what has changed.
func difference(before, after map[string]string) []string {
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] != after[key] {
			changed = append(changed, fmt.Sprintf("%s %s (was %q)", key, after[key], before[key]))
		}
	}
	return changed
}
