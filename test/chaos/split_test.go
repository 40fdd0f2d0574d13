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

	// The first replica's write to the claim on the right and the second one's
	// to that on the left are late.
	calls, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	var late []*faultproxy.Disturbance
	for i, name := range []string{"right", "left"} {
		proxy, url := startReplica(ctx, t, cp, []string{"prebind-1", "prebind-2"}[i])
		late = append(late, proxy.Disturb(faultproxy.Rule{
			Match: faultproxy.Match{Verb: "patch", Resource: "persistentvolumeclaims", Name: name}, Times: 1, Do: faultproxy.Hold(),
		}))
		pod, err := cp.Client().CoreV1().Pods(ns).Get(ctx, []string{"pod-1", "pod-2"}[i], metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { t.Logf("binding %s: %s", pod.Name, bind(calls, url, pod, []string{"node-1", "node-2"}[i])) })
	}
	t.Cleanup(group.Wait)
	t.Cleanup(end)
	for _, write := range late {
		if err := write.WaitHits(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, write := range late {
		write.Release()
	}

	nodes := map[string]string{}
	for _, name := range []string{"left", "right"} {
		now, err := cp.WaitClaim(ctx, ns, name, "given a node", func(c *corev1.PersistentVolumeClaim) bool {
			return c != nil && c.Annotations[volume.AnnSelectedNode] != ""
		})
		if err != nil {
			t.Fatal(err)
		}
		nodes[name] = now.Annotations[volume.AnnSelectedNode]
	}
	if nodes["left"] != nodes["right"] {
		t.Errorf("the claims that both pods use are to be provisioned on different nodes: %v", nodes)
	}
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
