package e2e_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/provisioner"
)

// awaitAttempt waits for the provisioner's nth attempt for a claim.
func (f *fixture) awaitAttempt(claim string, n int) provisioner.Attempt {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	attempt, err := shared.disks.WaitAttempt(ctx, f.ns, claim, n)
	f.must(err)
	return attempt
}

// S15 (c), (b), and what follows: the node goes while a volume is being made
// for it; only the provisioner may give the claim back, and does.
func TestS15_ClaimMovesOnWhenItsProvisionerGivesItBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old, b := f.node("old", nil), f.node("b", nil)
	f.claim(newClaim("data", f.dynamic("held", params(provisioner.Hold, "true"))))
	pod := f.pod(newPod("web", nobody, "data"))
	answer := f.start(pod, old)
	f.awaitAttempt("data", 1)
	f.removeNode(old)
	f.checkRefused(f.answer(answer), "NodeNotFound", old)

	f.refuses(pod, b, "SelectedNodeConflict", "claim "+f.ns+"/data", old, b)
	if got := f.selectedNode("data"); got != old {
		t.Fatalf("selected-node is %q, want it untouched (%s)", got, old)
	}
	shared.disks.Release(f.ns, "data") // it fails: the node is gone
	f.bindsInTheEnd(pod, b, "SelectedNodeConflict", "ProvisioningFailed")
}

func TestProvisionersThatFail(t *testing.T) {
	t.Parallel()
	message := []string{provisioner.FailureMessage, "pool is degraded"}
	tests := map[string]struct {
		params []string
		// codes are the answers to come before success; none: the first call
		// waits until the volume is there.
		codes    []string
		attempts int
	}{
		"it keeps the node and tries again":      {[]string{provisioner.Failures, "2", provisioner.FailureState, provisioner.Background}, nil, 3},
		"it ends an attempt and begins another":  {[]string{provisioner.Failures, "1", provisioner.FailureState, provisioner.Finished}, nil, 2},
		"it gives the claim back twice":          {[]string{provisioner.Failures, "2"}, []string{"ProvisioningFailed"}, 3},
		"it takes its time":                      {[]string{provisioner.Delay, "1500ms"}, nil, 1},
		"it is slow and then gives it back once": {[]string{provisioner.Delay, "300ms", provisioner.Failures, "1"}, []string{"ProvisioningFailed"}, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			f.claim(newClaim("data", f.dynamic("d", params(append(tc.params, message...)...))))
			f.bindsInTheEnd(f.pod(newPod("web", nobody, "data")), node, tc.codes...)
			if n := len(shared.disks.Attempts(f.ns, "data")); n != tc.attempts {
				t.Errorf("%d attempts to provision, want %d", n, tc.attempts)
			}
		})
	}
}

func TestProvisionerRefusesOneNodeAndTakesAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.node("a", nil), f.node("b", nil)
	f.claim(newClaim("data", f.dynamic("picky", params(provisioner.FailNodes, a, provisioner.FailureMessage, "pool on a is full"))))
	pod := f.pod(newPod("web", nobody, "data"))
	for range 2 { // the second time there is an old event about it, too
		f.refused(pod, a, "ProvisioningFailed", "claim "+f.ns+"/data", a, "pool on a is full")
		if got := f.selectedNode("data"); got != "" {
			t.Fatalf("selected-node is %s, the provisioner has removed it", got)
		}
	}
	f.binds(pod, b)
	if got := f.selectedNode("data"); got != b {
		t.Errorf("selected-node is %s, want %s", got, b)
	}
}

// S17: a class cannot be edited; to mend it, it is made anew.
func TestS17_ClassIsMadeAnewWithItsMistakeMended(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	class := f.dynamic("block", failing(1000, "RWX is not supported"))
	claim := newClaim("data", class, func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	})
	f.claim(claim)
	pod := f.pod(newPod("web", nobody, "data"))
	f.refused(pod, node, "ProvisioningFailed", "claim "+f.ns+"/data (class "+class+")", "RWX is not supported")
	f.removeClass(class)
	f.dynamic("block")
	f.bindsInTheEnd(pod, node, "ClaimUnbound", "ProvisioningFailed")
}

func TestTwoProvisionersOfOnePod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	other := f.name("other")
	f.serve(other)
	f.claim(newClaim("good", f.dynamic("good")))
	f.claim(newClaim("bad", f.class(newClass("bad", other, waits, failing(1, "no license")))))
	pod := f.pod(newPod("web", nobody, "good", "bad"))
	text := f.refused(pod, node, "ProvisioningFailed", "claim "+f.ns+"/bad", "no license")
	if len(text) > 1024 {
		t.Errorf("the answer has %d bytes: kube-scheduler shows 1024", len(text))
	}
	f.binds(pod, node)
	if n := len(shared.disks.Attempts(f.ns, "good")); n != 1 {
		t.Errorf("claim good was provisioned %d times", n)
	}
}

func TestUnusualClaims(t *testing.T) {
	t.Parallel()
	source := func(c *v1.PersistentVolumeClaim) {
		c.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "origin"}
	}
	tests := map[string]pvcOption{
		"it has foreign finalizers": func(c *v1.PersistentVolumeClaim) { c.Finalizers = []string{keep} },
		"it is cloned from another": source,
		"it is restored from a backup": func(c *v1.PersistentVolumeClaim) {
			c.Spec.DataSource = &v1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "monday"}
		},
		"it has labels, annotations and an owner": func(c *v1.PersistentVolumeClaim) {
			c.Labels = map[string]string{"app": "db", "example.com/backup": ""}
			c.Annotations = map[string]string{"example.com/note": "a\nb", "prebind.dev/anything": "x"}
		},
		"it has a limit as well": func(c *v1.PersistentVolumeClaim) {
			c.Spec.Resources.Limits = v1.ResourceList{v1.ResourceStorage: c.Spec.Resources.Requests[v1.ResourceStorage]}
		},
		"it asks for a block device": func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(v1.PersistentVolumeBlock) },
		"S33 its class is in the annotation": func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{v1.BetaStorageClassAnnotation: *c.Spec.StorageClassName}
			c.Spec.StorageClassName = nil
		},
		"it selects this node already, written by somebody": func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volume.AnnSelectedNode: c.Namespace + "-a"}
		},
	}
	for name, option := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			dynamic := newClaim("dynamic", f.dynamic("d"))
			dynamic.Namespace = f.ns
			option(dynamic)
			static := newClaim("static", f.class(newLocalClass("local")))
			f.volume(newVolume("pv", *static.Spec.StorageClassName, node, func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = dynamic.Spec.VolumeMode }))
			f.claim(dynamic)
			pods := []*v1.Pod{f.pod(newPod("dynamic", nobody, "dynamic"))}
			if f.selectedNode("dynamic") == "" { // else it is not for a static volume
				option(static)
				f.claim(static)
				pods = append(pods, f.pod(newPod("static", nobody, "static")))
			}
			for _, pod := range pods {
				f.binds(pod, node)
			}
		})
	}
}

// A bound claim that asks for more than its volume has is being expanded.
func TestClaimIsBeingExpanded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("a", nil)
	yes := true
	class := newClass("d", shared.disks.Name(), waits)
	class.AllowVolumeExpansion = &yes
	f.claim(newClaim("data", f.class(class)))
	f.binds(f.pod(newPod("first", nobody, "data")), node)
	f.patchClaim("data", object{"spec": object{"resources": object{"requests": object{"storage": "5Gi"}}}})
	claim := f.getClaim("data")
	claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).UpdateStatus(f.ctx, claim, metav1.UpdateOptions{})
	f.must(err)
	f.binds(f.pod(newPod("second", nobody, "data")), node)
	if got := f.getClaim("data").Spec.Resources.Requests.Storage().String(); got != "5Gi" {
		t.Errorf("the claim asks for %s, want 5Gi", got)
	}
}

// serve runs a provisioner of this name until the test ends.
func (f *fixture) serve(name string) {
	f.t.Helper()
	own, err := provisioner.Start(f.ctx, shared.cp, provisioner.Options{Name: name})
	f.must(err)
	f.t.Cleanup(own.Stop)
}
