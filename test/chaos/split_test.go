package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
	"github.com/prebind/prebind/test/provisioner"
)

// patience bounds waits for what must come.
const patience = time.Minute

// TestPodsThatShareTwoClaimsAreNotSplit has two replicas bind two pods, which
// share two claims, at the same time on different nodes. If each replica got one
// claim its way, the volumes would be on two nodes and no pod could ever run.
// kube-scheduler's own plugin never does this: it assumes the first pod's claims
// before it looks at the second pod.
func TestPodsThatShareTwoClaimsAreNotSplit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	ns, err := cp.CreateNamespace(ctx, "split")
	if err != nil {
		t.Fatal(err)
	}
	disks, err := provisioner.Start(ctx, cp, provisioner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(disks.Stop)
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return build.Claim(ns, name).Class("fast").Modes(corev1.ReadWriteMany).Obj()
	}
	err = cp.Create(ctx, build.Node("node-1").Obj(), build.Node("node-2").Obj(), build.Class("fast").Provisioner(disks.Name()).Obj(),
		claim("left"), claim("right"), build.Pod(ns, "pod-1").Claim("left", "right").Obj(), build.Pod(ns, "pod-2").Claim("left", "right").Obj())
	if err != nil {
		t.Fatal(err)
	}

	// Each replica's write for the one claim comes before that for the other.
	var group sync.WaitGroup
	var early, late []*faultproxy.Disturbance
	calls, end := context.WithCancel(ctx)
	urls, proxies := map[string]string{}, map[string]*faultproxy.Proxy{}
	for _, n := range []string{"1", "2"} {
		proxies[n], urls[n] = startReplica(ctx, t, cp, "prebind-"+n)
	}
	hold := func(proxy *faultproxy.Proxy, claim string) *faultproxy.Disturbance {
		match := faultproxy.Match{Verb: "patch", Resource: "persistentvolumeclaims", Name: claim}
		return proxy.Disturb(faultproxy.Rule{Match: match, Times: 1, Do: faultproxy.Hold()})
	}
	early = append(early, hold(proxies["1"], "left"), hold(proxies["2"], "right"))
	late = append(late, hold(proxies["1"], "right"), hold(proxies["2"], "left"))
	for n, url := range urls {
		pod, err := cp.Client().CoreV1().Pods(ns).Get(ctx, "pod-"+n, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { t.Logf("binding pod-%s: %s", n, bind(calls, url, pod, "node-"+n)) })
	}
	t.Cleanup(group.Wait)
	t.Cleanup(end)
	arrived := awaitHits(ctx, append(early, late...)...)
	for _, write := range early {
		write.Release()
	}
	if arrived { // else one write waits for another, and there is no order to choose
		for _, claim := range []string{"left", "right"} {
			selectedNode(ctx, t, cp, ns, claim)
		}
	}
	for _, write := range late {
		write.Release()
	}
	if left, right := selectedNode(ctx, t, cp, ns, "left"), selectedNode(ctx, t, cp, ns, "right"); left != right {
		t.Errorf("claim left is to be provisioned on %s, claim right on %s: no pod that uses both can ever run", left, right)
	}
}

// awaitHits tells whether all writes came. A prebind that sends the second one
// only after the first makes it wait in vain for a few seconds.
func awaitHits(ctx context.Context, writes ...*faultproxy.Disturbance) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, write := range writes {
		if write.WaitHits(ctx, 1) != nil {
			return false
		}
	}
	return true
}

// selectedNode waits until the claim is to be provisioned on a node.
func selectedNode(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane, ns, name string) string {
	t.Helper()
	claim, err := cp.WaitClaim(ctx, ns, name, "given a node", func(c *corev1.PersistentVolumeClaim) bool {
		return c != nil && c.Annotations[volume.AnnSelectedNode] != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return claim.Annotations[volume.AnnSelectedNode]
}

// startReplica starts a prebind behind a proxy of its own.
func startReplica(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane, name string) (*faultproxy.Proxy, string) {
	t.Helper()
	proxy, err := faultproxy.Start(faultproxy.Options{Target: cp.AdminConfig()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	prebind, err := cp.StartPrebind(ctx, controlplane.PrebindOptions{Name: name, APIServer: proxy.URL(), Race: true})
	if err != nil {
		t.Fatal(err)
	}
	return proxy, prebind.URL()
}

// bind asks for one bind and returns the answer, for the log.
func bind(ctx context.Context, url string, pod *corev1.Pod, node string) string {
	body, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil {
		return err.Error()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/bind", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}
