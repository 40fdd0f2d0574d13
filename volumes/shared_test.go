package volumes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// Pods that share claims must not send them to different nodes.

const node8 = "node-8"

// sharing starts with two pods that use the same claims.
func sharing(t *testing.T, claims ...testkit.ClaimBuilder) (e *env, first, second testkit.PodBuilder) {
	t.Helper()
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	first, second = testkit.Pod("web-0").Uses(names...), testkit.Pod("web-1").Uses(names...)
	e = start(t, first, second, testkit.Node(node8))
	for _, c := range claims {
		e.Put(c)
	}
	synctest.Wait() // the caches show them
	return e, first, second
}

func TestReserveHoldsClaimsThatPodsShareForOneNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, first, second := sharing(t, testkit.Claim("left").Class("fast"), testkit.Claim("right").Class("fast"))
		held, err := e.p.Reserve(t.Context(), e.pod(first), node7)
		wantText(t, err, "")
		if n := e.p.Reserved(); n != 2 {
			t.Errorf("%d reserved, want both claims", n)
		}
		_, err = e.p.Reserve(t.Context(), e.pod(second), node8)
		wantText(t, err, "SelectedNodeConflict: claim shop/left (class fast): another pod that uses it is about to have it provisioned for node node-7, not node-8; "+
			"SelectedNodeConflict: claim shop/right (class fast): another pod that uses it is about to have it provisioned for node node-7, not node-8")
		along, err := e.p.Reserve(t.Context(), e.pod(second), node7)
		wantText(t, err, "")
		e.p.Unreserve(held)
		_, err = e.p.Reserve(t.Context(), e.pod(second), node8)
		if fault.CodeOf(err) != fault.SelectedNodeConflict {
			t.Errorf("error %q while a call for node-7 is left", text(err))
		}
		e.p.Unreserve(along)
		elsewhere, err := e.p.Reserve(t.Context(), e.pod(second), node8)
		wantText(t, err, "")
		e.p.Unreserve(elsewhere)
		e.wrote()
	})
}

// The watch of claims lags behind the write.
func TestReserveOfAClaimEndsWhenTheCacheShowsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, first, second := sharing(t, testkit.Claim("left").Class("fast"))
		e.Hold("persistentvolumeclaims")
		call := e.call(first)
		if n := e.p.Reserved(); n != 1 {
			t.Errorf("%d reserved while the cache lags, want 1", n)
		}
		_, err := e.p.Reserve(t.Context(), e.pod(second), node8)
		if fault.CodeOf(err) != fault.SelectedNodeConflict {
			t.Errorf("error %q, want SelectedNodeConflict", text(err))
		}
		e.Release("persistentvolumeclaims")
		call.waits()
		if n := e.p.Reserved(); n != 0 {
			t.Errorf("%d reserved after the cache shows the write, want 0", n)
		}
		e.ChangeClaim("left", unselect)
		call.endsSoon("ProvisioningFailed: claim shop/left (class fast): node-7: provisioner csi.example.com gave the claim back (no event says why; see its log)")
	})
}

// The provisioner has given the claim back, and the cache has not seen it: what
// was read live counts.
func TestReserveOfAClaimThatTheCacheShowsWithAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, first, _ := sharing(t, testkit.Claim("left").Class("fast"))
		e.ChangeClaim("left", func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{volume.AnnSelectedNode: node8} })
		synctest.Wait()
		e.Hold("persistentvolumeclaims")
		e.ChangeClaim("left", unselect)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		held, err := e.p.Reserve(ctx, e.pod(first), node7)
		wantText(t, err, "")
		e.p.Unreserve(held)
	})
}

// A volume that only the other node can reach is no way round.
func TestReserveDoesNotProvisionAClaimThatHasAVolumePromised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, first, second := sharing(t, testkit.Claim("left").Class("fast"))
		e.Put(onNode7("pv-1").Class("fast"))
		synctest.Wait() // for the cache
		held, err := e.p.Reserve(t.Context(), e.pod(first), node7)
		wantText(t, err, "")
		_, err = e.p.Reserve(t.Context(), e.pod(second), node8)
		wantText(t, err, "NodeConflict: claim shop/left (class fast): volume pv-1 is about to be bound to it for another pod: node(s) didn't match PersistentVolume's node affinity: node node-8")
		e.p.Unreserve(held)
	})
}

// Two replicas know nothing of each other's reservations. The one that loses
// the first claim must not have written the second.
func TestBindWritesClaimsThatPodsShareOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, first, _ := sharing(t, testkit.Claim("left").Class("fast"), testkit.Claim("right").Class("fast"))
		e.Put(testkit.Claim("own").Class("fast"))
		pod := first.Uses("own")
		e.Put(pod)
		e.Before("patch", "persistentvolumeclaims", 1, func(testkit.Request) error {
			e.ChangeClaim("left", func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{volume.AnnSelectedNode: node8} })
			return nil
		})
		e.call(pod).endsSoon("SelectedNodeConflict: claim shop/left (class fast): it is being provisioned for node node-8, not node-7: only the provisioner may give it back")
		e.wrote("patch persistentvolumeclaims/left (409)")
		if n := e.p.Reserved(); n != 0 {
			t.Errorf("%d reserved in the end, want 0", n)
		}
	})
}

// The cache does not show the other pod yet, so that nothing tells that the claims
// are shared.
func TestBindThatLosesItsFirstClaimWritesNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("web-0").Uses("right", "own", "left")
		e := start(t, pod, testkit.Node(node8), onNode7("pv-1").Class("local"),
			testkit.Claim("right").Class("fast"), testkit.Claim("left").Class("fast"), testkit.Claim("own").Class("local"))
		e.Before("patch", "persistentvolumeclaims", 1, func(testkit.Request) error {
			e.ChangeClaim("left", func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{volume.AnnSelectedNode: node8} })
			return nil
		})
		e.call(pod).endsSoon("SelectedNodeConflict: claim shop/left (class fast): it is being provisioned for node node-8, not node-7: only the provisioner may give it back")
		e.wrote("patch persistentvolumeclaims/left (409)") // uid-left is before uid-own and uid-right
	})
}

func TestMakePlanGoesAlongWithWhatIsPromised(t *testing.T) {
	claim := testkit.Claim("data-0").Class("fast").PersistentVolumeClaim
	facts := func(c volumes.ClaimFacts) *volumes.Facts {
		c.Name, c.Claim, c.Class = claim.Name, claim, testkit.Class("fast").Provisions("csi.example.com").StorageClass
		c.Candidates = []*v1.PersistentVolume{testkit.Volume("pv-1").Class("fast").PersistentVolume}
		return &volumes.Facts{Pod: testkit.Pod("db-0").Uses(claim.Name).Pod, Node: testkit.Node(node7).Node, Claims: []volumes.ClaimFacts{c}}
	}
	plan, err := volumes.MakePlan(facts(volumes.ClaimFacts{PromisedNode: node7}))
	if err != nil || len(plan.Static) != 0 || len(plan.Dynamic) != 1 {
		t.Errorf("plan %+v, error %v: a claim that is about to be provisioned must not take a volume as well", plan, err)
	}
}
