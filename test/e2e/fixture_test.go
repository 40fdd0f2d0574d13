package e2e_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// patience is how long a test waits for what must come. It is never the
// measure of anything.
const patience = 60 * time.Second

// fixture is one test's corner of the shared control plane: a namespace, and
// a prefix for the names of what has none.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
	ns     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), client: shared.cp.Client()}
	var err error
	f.ns, err = shared.cp.CreateNamespace(f.ctx, "e2e")
	f.must(err)
	t.Cleanup(f.dumpOnFailure)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// name makes a cluster-wide name of a short one.
func (f *fixture) name(short string) string { return f.ns + "-" + short }

// cleanup deletes after the test; an error only means that it was gone.
func (f *fixture) cleanup(remove func(ctx context.Context) error) {
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = remove(ctx)
	})
}

// node makes a node; name is short. labels come in addition to the hostname.
func (f *fixture) node(short string, labels map[string]string) string {
	f.t.Helper()
	all := map[string]string{"test": f.ns}
	maps.Copy(all, labels)
	node, err := f.client.CoreV1().Nodes().Create(f.ctx, newNode(f.name(short), all), metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
	})
	return node.Name
}

func (f *fixture) class(class *storagev1.StorageClass) string {
	f.t.Helper()
	class.Name = f.name(class.Name)
	created, err := f.client.StorageV1().StorageClasses().Create(f.ctx, class, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.StorageV1().StorageClasses().Delete(ctx, created.Name, metav1.DeleteOptions{})
	})
	return created.Name
}

// volume makes a volume and waits until the PV controller has seen it.
func (f *fixture) volume(pv *v1.PersistentVolume) *v1.PersistentVolume {
	f.t.Helper()
	f.volumeNoWait(pv)
	var now *v1.PersistentVolume
	f.eventually("volume "+pv.Name+" has a phase", func() bool {
		now = f.getVolume(pv.Name)
		return now.Status.Phase != "" && now.Status.Phase != v1.VolumePending
	})
	return now
}

func (f *fixture) volumeNoWait(pv *v1.PersistentVolume) {
	f.t.Helper()
	pv.Name = f.name(pv.Name)
	_, err := f.client.CoreV1().PersistentVolumes().Create(f.ctx, pv, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
	})
}

func (f *fixture) claim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	f.t.Helper()
	created, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Create(f.ctx, claim, metav1.CreateOptions{})
	f.must(err)
	return created
}

func (f *fixture) pod(pod *v1.Pod) *v1.Pod {
	f.t.Helper()
	created, err := f.client.CoreV1().Pods(f.ns).Create(f.ctx, pod, metav1.CreateOptions{})
	f.must(err)
	return created
}

func (f *fixture) getPod(name string) *v1.Pod {
	f.t.Helper()
	pod, err := f.client.CoreV1().Pods(f.ns).Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	return pod
}

func (f *fixture) getClaim(name string) *v1.PersistentVolumeClaim {
	f.t.Helper()
	claim, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	return claim
}

func (f *fixture) getVolume(name string) *v1.PersistentVolume {
	f.t.Helper()
	pv, err := f.client.CoreV1().PersistentVolumes().Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	return pv
}

// eventually waits until the condition holds.
func (f *fixture) eventually(what string, condition func() bool) {
	f.t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		f.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// bind asks prebind to bind the pod to the node and returns the answer's
// Error: "" is success.
func (f *fixture) bind(pod *v1.Pod, node string) string {
	f.t.Helper()
	return f.bindAs(bindArgs(pod, node))
}

func (f *fixture) bindAs(args extenderv1.ExtenderBindingArgs) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience) // or a failure would hang
	defer cancel()
	text, err := postBind(ctx, shared.prebind.URL(), args)
	f.must(err)
	return text
}

// start sends a bind call in the background; the answer comes by the channel.
func (f *fixture) start(pod *v1.Pod, node string) <-chan string {
	answer := make(chan string, 1)
	ctx, url := f.ctx, shared.prebind.URL()
	go func() {
		text, err := postBind(ctx, url, bindArgs(pod, node))
		if err != nil {
			text = "transport: " + err.Error()
		}
		answer <- text
	}()
	return answer
}

func (f *fixture) answer(answer <-chan string) string {
	f.t.Helper()
	select {
	case text := <-answer:
		return text
	case <-time.After(patience):
		f.t.Fatal("no answer to the bind call")
		return ""
	}
}

// mustBind asks for the bind and checks from the API that it is true.
func (f *fixture) mustBind(pod *v1.Pod, node string) {
	f.t.Helper()
	if text := f.bind(pod, node); text != "" {
		f.t.Fatalf("binding pod %s to %s: %s", pod.Name, node, text)
	}
	f.checkBound(pod, node)
}

// checkBound checks the one thing that must never be wrong: a bound pod has
// only fully bound claims.
func (f *fixture) checkBound(pod *v1.Pod, node string) {
	f.t.Helper()
	now := f.getPod(pod.Name)
	if now.Spec.NodeName != node || now.UID != pod.UID {
		f.t.Fatalf("pod %s (uid %s) is on node %q, want uid %s on %q", pod.Name, now.UID, now.Spec.NodeName, pod.UID, node)
	}
	for i := range now.Spec.Volumes {
		source := &now.Spec.Volumes[i]
		switch {
		case source.PersistentVolumeClaim != nil:
			f.checkFullyBound(source.PersistentVolumeClaim.ClaimName)
		case source.Ephemeral != nil:
			f.checkFullyBound(pod.Name + "-" + source.Name)
		}
	}
}

func (f *fixture) checkFullyBound(name string) {
	f.t.Helper()
	claim := f.getClaim(name)
	if claim.Spec.VolumeName == "" || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
		f.t.Fatalf("pod is bound, but claim %s is not", name)
	}
	if ref := f.getVolume(claim.Spec.VolumeName).Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		f.t.Fatalf("claim %s is bound to volume %s, which is claimed by %v", name, claim.Spec.VolumeName, ref)
	}
}

// refused asks for a bind that must fail with the code and all the words, and
// checks that the pod is not bound.
func (f *fixture) refused(pod *v1.Pod, node, code string, words ...string) string {
	f.t.Helper()
	text := f.bind(pod, node)
	f.checkRefused(text, code, words...)
	if now := f.getPod(pod.Name); now.Spec.NodeName != "" {
		f.t.Fatalf("pod %s is on node %s after a refusal", pod.Name, now.Spec.NodeName)
	}
	return text
}

func (f *fixture) checkRefused(text, code string, words ...string) {
	f.t.Helper()
	if !strings.HasPrefix(text, code+": ") {
		f.t.Fatalf("answer %q, want code %s", text, code)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			f.t.Errorf("answer %q lacks %q", text, word)
		}
	}
}

// endedWith checks that the answer has one of the codes: a deletion is seen
// either while it goes on or when it is done.
func (f *fixture) endedWith(text string, codes ...string) {
	f.t.Helper()
	for _, code := range codes {
		if strings.HasPrefix(text, code+": ") {
			return
		}
	}
	f.t.Fatalf("answer %q, want one of %v", text, codes)
}

// untouched checks that nobody has begun to bind the claims.
func (f *fixture) untouched(claims ...string) {
	f.t.Helper()
	for _, name := range claims {
		claim := f.getClaim(name)
		if node, ok := claim.Annotations[volume.AnnSelectedNode]; ok || claim.Spec.VolumeName != "" {
			f.t.Errorf("claim %s was touched: selected-node %q, volume %q", name, node, claim.Spec.VolumeName)
		}
	}
}

// free checks that nobody has claimed the volumes.
func (f *fixture) free(pvs ...*v1.PersistentVolume) {
	f.t.Helper()
	for _, pv := range pvs {
		if ref := f.getVolume(pv.Name).Spec.ClaimRef; ref != nil {
			f.t.Errorf("volume %s is claimed by %s", pv.Name, ref.Name)
		}
	}
}

func (f *fixture) dumpOnFailure() {
	if f.t.Failed() && shared.prebind != nil {
		f.t.Logf("prebind's log: %s", shared.tail())
	}
}
