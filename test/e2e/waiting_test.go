package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/controlplane"
)

// waitingFor makes a pod whose only claim nobody ever provisions, sends the
// bind call, and returns when selected-node is written.
func waitingFor(f *fixture, node string) (*v1.Pod, <-chan string) {
	f.t.Helper()
	class := f.class(newClass("never", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	answer := f.start(pod, node)
	f.eventually("selected-node is written", func() bool {
		return f.getClaim("data").Annotations[volume.AnnSelectedNode] == node
	})
	return pod, answer
}

func TestS12_PodIsDeletedDuringTheWait(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	pod, answer := waitingFor(f, node)
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, pod.Name, metav1.DeleteOptions{}))
	f.endedWith(f.answer(answer), "PodTerminating", "PodNotFound")
	if got := f.getClaim("data").Annotations[volume.AnnSelectedNode]; got != node {
		t.Errorf("selected-node is %q: a write was rolled back", got)
	}
}

func TestS15_NodeIsDeletedDuringTheWait(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	_, answer := waitingFor(f, node)
	f.must(f.client.CoreV1().Nodes().Delete(f.ctx, node, metav1.DeleteOptions{}))
	f.checkRefused(f.answer(answer), "NodeNotFound", node)
}

func TestClaimIsDeletedDuringTheWait(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	_, answer := waitingFor(f, node)
	f.must(f.client.CoreV1().PersistentVolumeClaims(f.ns).Delete(f.ctx, "data", metav1.DeleteOptions{}))
	f.endedWith(f.answer(answer), "ClaimTerminating", "ClaimNotFound")
}

func TestCallerHangsUpDuringTheWait(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	whole := f.ctx
	ctx, cancel := context.WithCancel(whole)
	f.ctx = ctx
	pod, answer := waitingFor(f, node)
	cancel()
	if text := f.answer(answer); !strings.HasPrefix(text, "transport: ") {
		t.Fatalf("answer %q after the caller hung up", text)
	}
	f.ctx = whole
	// The next call for the same node writes nothing new and joins in.
	before := f.getClaim("data").ResourceVersion
	second := f.start(pod, node)
	provisionByHand(f, node)
	if text := f.answer(second); text != "" {
		t.Fatalf("the second call: %s", text)
	}
	f.checkBound(pod, node)
	if before == "" {
		t.Error("claim without resourceVersion")
	}
}

// provisionByHand does what a slow provisioner does in the end.
func provisionByHand(f *fixture, node string) {
	f.t.Helper()
	claim := f.getClaim("data")
	f.volume(newVolume("by-hand", *claim.Spec.StorageClassName, node, func(pv *v1.PersistentVolume) {
		pv.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: "nobody.example/none"}
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: f.ns, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion}
	}))
}

func TestVolumeThatComesDoesNotFitTheNode(t *testing.T) {
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	_, answer := waitingFor(f, a)
	provisionByHand(f, b)
	f.checkRefused(f.answer(answer), "NodeConflict", "claim "+f.ns+"/data", "by-hand", a)
}

func TestS17_ProvisioningFailsAndThenWorks(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newClass("flaky", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer, failing(1, "RWX is not supported")))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "ProvisioningFailed", "claim "+f.ns+"/data (class "+class+")", node, "RWX is not supported")
	if selected, ok := f.getClaim("data").Annotations[volume.AnnSelectedNode]; ok {
		t.Fatalf("selected-node is still %s", selected)
	}
	f.mustBind(pod, node)
}

func TestTimeOutSaysWhatWasWaitedFor(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	short := shared.startPrebind(t, controlplane.PrebindOptions{Name: "short", BindTimeout: time.Second})
	class := f.class(newClass("never", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	text, err := postBind(f.ctx, short.URL(), bindArgs(pod, node))
	f.must(err)
	f.checkRefused(text, "BindTimeout", "claim "+f.ns+"/data (class "+class+")", "nobody.example/none", node, "1s")

	// Again: nothing new is written.
	before := f.getClaim("data").ResourceVersion
	text, err = postBind(f.ctx, short.URL(), bindArgs(pod, node))
	f.must(err)
	f.checkRefused(text, "BindTimeout")
	if after := f.getClaim("data").ResourceVersion; after != before {
		t.Errorf("the claim was written again: resourceVersion %s, was %s", after, before)
	}
}

// The controller manager is held still, so that static bindings stay half way.
func TestStaticBindingHeldHalfWay(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	claim := f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	thaw := shared.freezeControllers(t)
	answer := f.start(pod, node)
	f.eventually("claimRef is written", func() bool { return f.getVolume(pv.Name).Spec.ClaimRef != nil })

	written := f.getVolume(pv.Name)
	ref := written.Spec.ClaimRef
	if ref.Kind != "PersistentVolumeClaim" || ref.Namespace != f.ns || ref.Name != "data" || ref.UID != claim.UID || ref.ResourceVersion == "" {
		t.Errorf("S05: claimRef = %+v", ref)
	}
	if written.Annotations[volume.AnnBoundByController] != "yes" {
		t.Errorf("S05: annotations = %v", written.Annotations)
	}
	select {
	case text := <-answer:
		t.Fatalf("S06: answered %q before the claim was bound", text)
	default:
	}

	t.Run("prebind is killed and restarted, the next call goes on", func(t *testing.T) {
		f.must(shared.prebind.Kill())
		if text := f.answer(answer); !strings.HasPrefix(text, "transport: ") {
			t.Fatalf("a killed process answered %q", text)
		}
		f.must(shared.prebind.Start(f.ctx))
		again := f.start(pod, node)
		thaw()
		if text := f.answer(again); text != "" {
			t.Fatal(text)
		}
		f.checkBound(pod, node)
	})
}

func TestS05_ClaimRefIsResetDuringTheWait(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("a", class, node))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	thaw := shared.freezeControllers(t)
	defer thaw()
	answer := f.start(pod, node)
	f.eventually("claimRef is written", func() bool { return f.getVolume(pv.Name).Spec.ClaimRef != nil })
	reset := f.getVolume(pv.Name)
	reset.Spec.ClaimRef = nil
	_, err := f.client.CoreV1().PersistentVolumes().Update(f.ctx, reset, metav1.UpdateOptions{})
	f.must(err)
	f.checkRefused(f.answer(answer), "ClaimRefReset", "claim "+f.ns+"/data", pv.Name)
	if _, err := f.client.CoreV1().Pods(f.ns).Get(f.ctx, "web", metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("the pod is gone")
	}
}

func TestS01_TwoPodsWantTheSameVolume(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	pv := f.volume(newVolume("only", class, node))
	f.claim(newClaim("one", class))
	f.claim(newClaim("two", class))
	pods := []*v1.Pod{f.pod(newPod("one", nobody, "one")), f.pod(newPod("two", nobody, "two"))}
	answers := []<-chan string{f.start(pods[0], node), f.start(pods[1], node)}
	winners := 0
	for i, answer := range answers {
		switch text := f.answer(answer); {
		case text == "":
			winners++
			f.checkBound(pods[i], node)
		case !strings.HasPrefix(text, "NoVolume: "):
			t.Errorf("the loser was told %q", text)
		}
	}
	if winners != 1 {
		t.Errorf("%d pods were bound to volume %s", winners, pv.Name)
	}
}

func TestOneClaimInTwoPods(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	one, two := f.volume(newVolume("one", class, node)), f.volume(newVolume("two", class, node))
	f.claim(newClaim("shared", class))
	pods := []*v1.Pod{f.pod(newPod("one", nobody, "shared")), f.pod(newPod("two", nobody, "shared"))}
	answers := []<-chan string{f.start(pods[0], node), f.start(pods[1], node)}
	for i, answer := range answers {
		if text := f.answer(answer); text != "" {
			t.Fatal(text)
		}
		f.checkBound(pods[i], node)
	}
	if f.getVolume(one.Name).Spec.ClaimRef != nil && f.getVolume(two.Name).Spec.ClaimRef != nil {
		t.Error("both volumes were claimed for one claim")
	}
}

func TestS42_VolumeThatIsNotAvailableYet(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	f.claim(newClaim("data", class))
	pod := f.pod(newPod("web", nobody, "data"))
	thaw := shared.freezeControllers(t)
	pv := newVolume("young", class, node)
	f.volumeNoWait(pv)
	f.refused(pod, node, "NoVolume")
	f.free(pv)
	thaw()
	f.eventually("the volume is available", func() bool { return f.getVolume(pv.Name).Status.Phase == v1.VolumeAvailable })
	f.mustBind(pod, node)
}

func TestS06_ClaimIsHalfBound(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newLocalClass("local"))
	spare := f.volume(newVolume("spare", class, node))
	thaw := shared.freezeControllers(t)
	claim := f.claim(newClaim("data", class, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = f.name("half") }))
	f.volumeNoWait(newVolume("half", class, node, func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: f.ns, Name: "data", UID: claim.UID}
	}))
	pod := f.pod(newPod("web", nobody, "data"))
	answer := f.start(pod, node)
	thaw()
	f.awaitBound("data")
	if text := f.answer(answer); text != "" {
		t.Fatal(text)
	}
	f.checkBound(pod, node)
	f.free(spare)
}

func TestS47_PodsWithoutClaimsDoNotWaitBehindOthers(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.class(newClass("never", "nobody.example/none", storagev1.VolumeBindingWaitForFirstConsumer))
	const waiting = 100
	ctx, hangUp := context.WithCancel(f.ctx)
	whole := f.ctx
	f.ctx = ctx
	var answers []<-chan string
	for i := range waiting {
		name := fmt.Sprintf("p%d", i)
		f.claim(newClaim(name, class))
		answers = append(answers, f.start(f.pod(newPod(name, nobody, name)), node))
	}
	f.eventually("all wait", func() bool {
		text, err := shared.metrics(f.ctx)
		f.must(err)
		return strings.Contains(text, fmt.Sprintf("\nprebind_bind_calls_in_flight %d\n", waiting))
	})
	f.mustBind(f.pod(newPod("plain", nobody)), node)
	for i, answer := range answers {
		select {
		case text := <-answer:
			t.Fatalf("call %d has ended: %s", i, text)
		default:
		}
	}
	hangUp()
	f.ctx = whole
	for _, answer := range answers {
		f.answer(answer)
	}
}
