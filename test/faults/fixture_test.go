package faults_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/test/build"
)

// patience is how long a test waits for what must come. It is never the
// measure of anything.
const patience = 60 * time.Second

// nobody is a schedulerName that no scheduler serves: such a pod is bound by
// the test's own call, or not at all.
const nobody = "nobody"

// fixture is one test's corner of the shared control plane: a namespace, and a
// prefix for the names of what has none. Calls go to the stand that it is on.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface // the administrator's, past all proxies
	ns     string
	on     *stand
}

func newFixture(t *testing.T, on *stand) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // nothing hangs for ever
	t.Cleanup(cancel)
	f := &fixture{t: t, ctx: ctx, client: shared.cp.Client(), on: on}
	var err error
	f.ns, err = shared.cp.CreateNamespace(f.ctx, "faults")
	f.must(err)
	t.Cleanup(f.dumpOnFailure)
	return f
}

// at returns the same corner with calls going to another stand.
func (f *fixture) at(on *stand) *fixture {
	other := *f
	other.on = on
	return &other
}

// hasContext returns the same corner with calls that end with ctx.
func (f *fixture) hasContext(ctx context.Context) *fixture {
	other := *f
	other.ctx = ctx
	return &other
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

// node makes a node whose hostname is its name.
func (f *fixture) node(short string) string {
	f.t.Helper()
	node, err := f.client.CoreV1().Nodes().Create(f.ctx, build.Node(f.name(short)).Obj(), metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
	})
	return node.Name
}

// class makes a class that waits for the first consumer.
func (f *fixture) class(short, provisioner string) string {
	f.t.Helper()
	class := build.Class(f.name(short)).Provisioner(provisioner).Obj()
	_, err := f.client.StorageV1().StorageClasses().Create(f.ctx, class, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
	})
	return class.Name
}

// disk makes a local volume on the node and waits until it can be claimed.
func (f *fixture) disk(short, class, node, size string) *v1.PersistentVolume {
	f.t.Helper()
	pv := build.Volume(f.name(short)).Class(class).Capacity(size).OnNode(node).Obj()
	f.createVolume(pv)
	f.eventually("volume "+pv.Name+" is available", func() bool {
		pv = f.getVolume(pv.Name)
		return pv.Status.Phase == v1.VolumeAvailable
	})
	return pv
}

func (f *fixture) createVolume(pv *v1.PersistentVolume) {
	f.t.Helper()
	_, err := f.client.CoreV1().PersistentVolumes().Create(f.ctx, pv, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error {
		return f.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
	})
}

// claim makes a claim for 1Gi.
func (f *fixture) claim(name, class string) *v1.PersistentVolumeClaim {
	f.t.Helper()
	claim := build.Claim(f.ns, name).Class(class).Obj()
	created, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Create(f.ctx, claim, metav1.CreateOptions{})
	f.must(err)
	return created
}

func (f *fixture) pod(name string, claims ...string) *v1.Pod {
	f.t.Helper()
	pod := build.Pod(f.ns, name).Scheduler(nobody).Claim(claims...).Obj()
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

// start sends a bind call in the background; the answer comes by the channel.
func (f *fixture) start(pod *v1.Pod, node string) <-chan string {
	answer := make(chan string, 1)
	ctx, on := f.ctx, f.on
	go func() { answer <- postBind(ctx, on, pod, node) }()
	return answer
}

// bind asks prebind to bind the pod to the node and returns the answer's
// Error: "" is success.
func (f *fixture) bind(pod *v1.Pod, node string) string {
	f.t.Helper()
	return f.answer(f.start(pod, node))
}

func (f *fixture) answer(answer <-chan string) string {
	f.t.Helper()
	select {
	case text := <-answer:
		return text
	case <-time.After(2 * patience):
		f.t.Fatal("no answer to the bind call")
		return ""
	}
}

// notAnswered checks that the call is still running.
func (f *fixture) notAnswered(answer <-chan string) {
	f.t.Helper()
	select {
	case text := <-answer:
		f.t.Fatalf("the call has ended with %q, want it to go on", text)
	default:
	}
}

func (f *fixture) dumpOnFailure() {
	if !f.t.Failed() {
		return
	}
	var lines []string
	for _, r := range f.requests() {
		lines = append(lines, r.String())
	}
	for line := range strings.Lines(f.on.prebind.Tail(10_000)) {
		if strings.Contains(line, f.ns) {
			lines = append(lines, line)
		}
	}
	f.t.Logf("requests and log lines of prebind %s about %s:\n%s", f.on.name, f.ns, strings.Join(lines, "\n"))
}
