package load_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

const (
	// patience is how long a test waits for what must come. It is never the
	// measure of anything.
	patience = 4 * time.Minute
	// nobody is a schedulerName that no scheduler serves.
	nobody = "nobody"
	// hands is how many requests a test sends to the API server at once.
	hands = 32
)

// fixture is one test's corner of the control plane: a namespace, and a prefix
// for the names of what has none.
type fixture struct {
	t      *testing.T
	client kubernetes.Interface
	ns     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, client: plane.Client()}
	var err error
	f.ns, err = plane.CreateNamespace(t.Context(), "load")
	f.must(err)
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

// node makes a node with room for all pods and returns its name.
func (f *fixture) node(short string) string {
	f.t.Helper()
	node := build.Node(f.name(short)).Capacity(corev1.ResourcePods, "10000").Label("test", f.ns)
	f.must(plane.Create(f.t.Context(), node.Obj()))
	return f.name(short)
}

// unserved makes a class whose provisioner never answers.
func (f *fixture) unserved() string {
	f.t.Helper()
	f.must(plane.Create(f.t.Context(), build.Class(f.name("unserved")).Provisioner("test.prebind.dev/silent").Obj()))
	return f.name("unserved")
}

// each runs do for 0 to n-1, many at a time, and ends the test at an error.
func (f *fixture) each(n int, do func(ctx context.Context, i int) error) {
	f.t.Helper()
	group, ctx := errgroup.WithContext(f.t.Context())
	group.SetLimit(hands)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	f.must(group.Wait())
}

// pods makes n pods for nobody's scheduler. Those with a class have a claim
// each, of the pod's name.
func (f *fixture) pods(prefix string, n int, class string) []*corev1.Pod {
	f.t.Helper()
	pods := make([]*corev1.Pod, n)
	f.each(n, func(ctx context.Context, i int) (err error) {
		name := fmt.Sprintf("%s-%d", prefix, i)
		pod := build.Pod(f.ns, name).Scheduler(nobody)
		if class != "" {
			claim := build.Claim(f.ns, name).Class(class).Obj()
			if _, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
				return err
			}
			pod.Claim(name)
		}
		pods[i], err = f.client.CoreV1().Pods(f.ns).Create(ctx, pod.Obj(), metav1.CreateOptions{})
		return err
	})
	return pods
}

// remove deletes pods at once, as one does that are on no node.
func (f *fixture) remove(pods []*corev1.Pod) {
	f.t.Helper()
	f.each(len(pods), func(ctx context.Context, i int) error {
		return f.client.CoreV1().Pods(f.ns).Delete(ctx, pods[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
}

// checkNodes checks from the API alone which pods are on the node ("" is none).
func (f *fixture) checkNodes(node string, pods ...*corev1.Pod) {
	f.t.Helper()
	list, err := f.client.CoreV1().Pods(f.ns).List(f.t.Context(), metav1.ListOptions{})
	f.must(err)
	now := map[string]*corev1.Pod{}
	for i := range list.Items {
		now[string(list.Items[i].UID)] = &list.Items[i]
	}
	for _, pod := range pods {
		switch found := now[string(pod.UID)]; {
		case found == nil:
			f.t.Errorf("pod %s (uid %s) is gone", pod.Name, pod.UID)
		case found.Spec.NodeName != node:
			f.t.Errorf("pod %s is on node %q, want %q", pod.Name, found.Spec.NodeName, node)
		}
	}
}

// prebind starts a prebind of the test's own, which is stopped at its end.
func (f *fixture) prebind(opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	opts.LogLevel = "info"
	p, err := plane.StartPrebind(f.t.Context(), opts)
	f.must(err)
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("the end of %s's log:\n%s", opts.Name, p.Tail(20))
		}
		if err := p.Stop(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	return p
}

// eventually waits until the condition holds. last tells how far it has come.
func (f *fixture) eventually(what string, condition func() (done bool, last string)) {
	f.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (done bool, err error) {
		done, last = condition()
		return done, nil
	})
	if err != nil {
		f.t.Fatalf("waiting until %s: %v; last: %s", what, err, last)
	}
}

// inFlight waits until n cycles run in prebind.
func (f *fixture) inFlight(p *controlplane.Prebind, n int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d calls run in %s", n, p.Name()), func() (bool, string) {
		now := f.metrics(p)["prebind_bind_calls_in_flight"]
		return int(now) == n, fmt.Sprint(now)
	})
}

// selected waits until every pod's claim is handed to the provisioner.
func (f *fixture) selected(pods []*corev1.Pod) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d claims have their node", len(pods)), func() (bool, string) {
		claims, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).List(f.t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		f.must(err)
		n := 0
		for i := range claims.Items {
			if strings.HasPrefix(claims.Items[i].Annotations["volume.kubernetes.io/selected-node"], f.ns) {
				n++
			}
		}
		return n == len(pods), fmt.Sprintf("%d of %d", n, len(claims.Items))
	})
}
