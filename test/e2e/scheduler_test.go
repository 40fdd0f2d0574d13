package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/controlplane"
)

// scheduled is a fixture whose pods a real scheduler takes to the fixture's
// own nodes.
type scheduled struct {
	*fixture
	mode  controlplane.Mode
	nodes []string
	local string // a class of static volumes
}

func newScheduled(t *testing.T, mode controlplane.Mode, nodes int) *scheduled {
	t.Helper()
	f := &scheduled{fixture: newFixture(t), mode: mode}
	for i := range nodes {
		f.nodes = append(f.nodes, f.node(fmt.Sprintf("n%d", i), nil))
	}
	f.local = f.class(newLocalClass("local"))
	return f
}

// pod makes a pod that the scheduler may take to the fixture's nodes only.
func (f *scheduled) pod(pod *v1.Pod) *v1.Pod {
	f.t.Helper()
	pod.Spec.SchedulerName = shared.cp.SchedulerName()
	pod.Spec.NodeSelector = map[string]string{"test": f.ns}
	return f.fixture.pod(pod)
}

// bound waits until the scheduler has had the pods bound, and checks them.
func (f *scheduled) bound(names ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 2*patience)
	defer cancel()
	for _, name := range names {
		pod, err := shared.cp.WaitBound(ctx, f.ns, name)
		f.must(err)
		f.checkBound(pod, pod.Spec.NodeName)
	}
}

// eventWith waits for a FailedScheduling event of the pod with all the words.
func (f *scheduled) eventWith(pod string, words ...string) {
	f.t.Helper()
	var seen []string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("events of pod %s: %s", pod, strings.Join(seen, "\n"))
		}
	}()
	f.eventually("an event of pod "+pod+" has "+strings.Join(words, ", "), func() bool {
		texts, err := shared.cp.Events(f.ctx, f.ns, pod, "FailedScheduling")
		f.must(err)
		seen = texts
		for _, text := range texts {
			missing := 0
			for _, word := range words {
				if !strings.Contains(text, word) {
					missing++
				}
			}
			if missing == 0 {
				return true
			}
		}
		return false
	})
}

// The same workloads, bound through a real kube-scheduler in every mode.
func TestScheduler(t *testing.T) {
	for _, mode := range []controlplane.Mode{controlplane.ModeBind, controlplane.ModeFull, controlplane.ModeStock} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			opts := controlplane.SchedulerOptions{Mode: mode, URL: shared.prebind.URL()}
			if err := shared.cp.StartScheduler(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				name string
				run  func(*testing.T, controlplane.Mode)
			}{
				{"each kind of volume", testKinds},
				{"a StatefulSet of 5", testStatefulSets},
				{"60 pods on 60 equal volumes", testEqualVolumes},
				{"provisioning fails once", testProvisioningFailsOnce},
				{"a pod is deleted in mid-wait", testPodDeletedInMidWait},
				{"prebind is killed in mid-wait", testPrebindKilled},
				{"no volume fits", testNoVolumeFits},
				{"a pod without claims is one write", testWritesWithoutClaims},
				{"a static claim is one volume write", testWritesOfStaticClaim},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, mode) })
			}
		})
	}
	if err := shared.cp.StopScheduler(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testKinds(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 2)
	dynamic := f.dynamic("dynamic")
	for i := range 4 {
		f.volume(newVolume(fmt.Sprintf("pv%d", i), f.local, f.nodes[i%2]))
	}
	f.claim(newClaim("static", f.local))
	f.claim(newClaim("provisioned", dynamic))
	f.claim(newClaim("mixed-static", f.local))
	f.claim(newClaim("mixed-dynamic", dynamic))

	f.pod(newPod("without", ""))
	f.pod(newPod("static", "", "static"))
	f.pod(newPod("dynamic", "", "provisioned"))
	f.pod(withEphemeral(newPod("ephemeral", ""), "scratch", dynamic))
	f.pod(withEphemeral(newPod("mixed", "", "mixed-static", "mixed-dynamic"), "scratch", f.local))
	f.bound("without", "static", "dynamic", "ephemeral", "mixed")

	// Claims that are bound already, in a new pod: it must follow them.
	f.pod(newPod("again", "", "static"))
	f.bound("again")
	if first, again := f.getPod("static").Spec.NodeName, f.getPod("again").Spec.NodeName; first != again {
		t.Errorf("the claim's volume is on %s, the second pod on %s", first, again)
	}
}

func testStatefulSets(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 3)
	for i := range 5 {
		f.volume(newVolume(fmt.Sprintf("pv%d", i), f.local, f.nodes[i%3]))
	}
	var names []string
	for name, class := range map[string]string{"db": f.local, "cache": f.dynamic("dynamic")} {
		set := newStatefulSet(name, shared.cp.SchedulerName(), class, 5, f.ns)
		_, err := f.client.AppsV1().StatefulSets(f.ns).Create(f.ctx, set, metav1.CreateOptions{})
		f.must(err)
		for i := range 5 {
			names = append(names, fmt.Sprintf("%s-%d", name, i))
		}
	}
	// Each waits for the one before it to be ready.
	f.bound(names...)
}

// In the field, with preBind disabled alone, some of these got stuck beside free
// volumes; not every time.
func testEqualVolumes(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 20)
	var names []string
	for i := range 60 {
		name := fmt.Sprintf("p%d", i)
		names = append(names, name)
		f.volumeNoWait(newVolume(name, f.local, f.nodes[i%20]))
	}
	f.availables(60)
	for _, name := range names {
		f.claim(newClaim(name, f.local))
		f.pod(newPod(name, "", name))
	}
	f.bound(names...)
}

func testProvisioningFailsOnce(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 1)
	f.claim(newClaim("data", f.dynamic("flaky", failing(1, "quota exceeded"))))
	f.pod(newPod("web", "", "data"))
	if mode != controlplane.ModeStock {
		f.eventWith("web", "ProvisioningFailed: claim "+f.ns+"/data", f.nodes[0], "quota exceeded")
	}
	f.bound("web")
}

func testPodDeletedInMidWait(t *testing.T, mode controlplane.Mode) {
	if mode == controlplane.ModeStock {
		t.Skip("in mode stock the wait is the scheduler's own")
	}
	f := newScheduled(t, mode, 1)
	class := f.class(newClass("never", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	f.claim(newClaim("data", class))
	old := f.pod(newPod("web", "", "data"))
	f.eventually("selected-node is written", func() bool {
		return f.getClaim("data").Annotations[volume.AnnSelectedNode] == f.nodes[0]
	})
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "web", metav1.DeleteOptions{}))
	shared.awaitBindLine(f.fixture, string(old.UID), "PodTerminating", "PodNotFound")
}

func testPrebindKilled(t *testing.T, mode controlplane.Mode) {
	if mode == controlplane.ModeStock {
		t.Skip("in mode stock the wait is the scheduler's own")
	}
	f := newScheduled(t, mode, 1)
	pv := f.volume(newVolume("a", f.local, f.nodes[0]))
	f.claim(newClaim("data", f.local))
	thaw := shared.freezeControllers(t)
	f.pod(newPod("web", "", "data"))
	f.eventually("claimRef is written", func() bool { return f.getVolume(pv.Name).Spec.ClaimRef != nil })
	written := f.getVolume(pv.Name).ResourceVersion
	f.must(shared.prebind.Kill())
	f.must(shared.prebind.Start(f.ctx))
	if now := f.getVolume(pv.Name).ResourceVersion; now != written {
		t.Errorf("the volume was written again: resourceVersion %s, was %s", now, written)
	}
	thaw()
	f.bound("web")
}

func testNoVolumeFits(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 1)
	class := f.class(newLocalClass("empty"))
	f.claim(newClaim("data", class))
	f.pod(newPod("web", "", "data"))
	f.eventWith("web", "node(s) didn't find available persistent volumes to bind")
	f.volume(newVolume("late", class, f.nodes[0]))
	f.bound("web")
}

func testWritesWithoutClaims(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 1)
	f.pod(newPod("plain", ""))
	f.bound("plain")
	f.wroteExactly("create pods/binding plain")
}

func testWritesOfStaticClaim(t *testing.T, mode controlplane.Mode) {
	f := newScheduled(t, mode, 1)
	pv := f.volume(newVolume("a", f.local, f.nodes[0]))
	f.claim(newClaim("data", f.local))
	f.pod(newPod("web", "", "data"))
	f.bound("web")
	if mode != controlplane.ModeStock {
		f.wroteExactly("patch persistentvolumes "+pv.Name, "create pods/binding web")
	} else {
		f.wroteExactly("create pods/binding web")
	}
}

// wroteExactly checks in the API server's audit log what prebind has written
// of the fixture's objects, in this order.
func (f *scheduled) wroteExactly(want ...string) {
	f.t.Helper()
	events, err := shared.cp.Audit(f.ctx, controlplane.AuditFilter{User: controlplane.PrebindUser, Verbs: controlplane.Writes()})
	if err != nil {
		f.t.Skip(err)
	}
	var got []string
	for _, event := range events {
		ref := event.ObjectRef
		if ref.Namespace != f.ns && !strings.HasPrefix(ref.Name, f.ns+"-") {
			continue
		}
		resource := ref.Resource
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		got = append(got, event.Verb+" "+resource+" "+ref.Name)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		f.t.Errorf("prebind wrote: %s\nwant: %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
