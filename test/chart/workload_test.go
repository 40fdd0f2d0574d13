package chart_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
)

// bindsPods creates a pod without volumes, one with a static volume, one with
// a volume to be provisioned and one with both, and waits until the release's
// prebind has bound them. round makes the names differ.
func (r *release) bindsPods(round, scheduler string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*patience)
	defer cancel()
	disks, err := shared.disks()
	must(r.t, err)
	name := func(short string) string { return r.namespace + "-" + round + "-" + short }
	node, local, dynamic := name("node"), name("local"), name("dynamic")
	must(r.t, r.cp.Create(ctx,
		build.Node(node).Obj(), build.Class(local).Obj(), build.Class(dynamic).Provisioner(disks.Name()).Obj(),
		build.Volume(name("1")).Class(local).OnNode(node).Obj(), build.Volume(name("2")).Class(local).OnNode(node).Obj()))
	r.t.Cleanup(func() { _ = r.cp.Client().CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	claims := map[string][]string{
		"without": nil, "static": {"static"}, "dynamic": {"dynamic"}, "both": {"both-static", "both-dynamic"},
	}
	for claim, class := range map[string]string{"static": local, "dynamic": dynamic, "both-static": local, "both-dynamic": dynamic} {
		must(r.t, r.cp.Create(ctx, build.Claim(r.namespace, round+"-"+claim).Class(class).Obj()))
	}
	for pod, names := range claims {
		b := build.Pod(r.namespace, round+"-"+pod).OnHost(node).Scheduler(scheduler)
		for _, claim := range names {
			b.Claim(round + "-" + claim)
		}
		must(r.t, r.cp.Create(ctx, b.Obj()))
	}
	for pod, names := range claims {
		_, err := r.cp.WaitBound(ctx, r.namespace, round+"-"+pod)
		must(r.t, err)
		r.boundByPrebind(ctx, round+"-"+pod)
		for _, claim := range names {
			_, err := r.cp.WaitClaim(ctx, r.namespace, round+"-"+claim, "bound", func(c *corev1.PersistentVolumeClaim) bool {
				return c != nil && c.Status.Phase == corev1.ClaimBound
			})
			must(r.t, err)
		}
	}
}

// boundByPrebind checks who posted a pod's Binding.
func (r *release) boundByPrebind(ctx context.Context, pod string) {
	r.t.Helper()
	events, err := r.cp.Audit(ctx, controlplane.AuditFilter{
		Verbs: []string{"create"}, Resource: "pods", Subresource: "binding", Namespace: r.namespace, Name: pod, Code: 201,
	})
	must(r.t, err)
	if len(events) != 1 || events[0].User.Username != r.prebindUser() {
		r.t.Errorf("pod %s is to be bound once, by %s, and was by\n%s", pod, r.prebindUser(), controlplane.DescribeAudit(events))
	}
}
