package binder_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/testkit"
)

func withClaim() testkit.PodBuilder { return testkit.Pod("db-0").Uses("data-0") }

func onNode7(name string) testkit.VolumeBuilder { return testkit.Volume(name).OnHost(node7) }

func TestVolumesAreBoundBeforeThePodIs(t *testing.T) {
	bubble(t, func(t *testing.T) { // S19
		e := start(t, builtIn, withClaim(), testkit.Claim("data-0"), onNode7("pv-1"))
		call := e.call(request("db-0"))
		call.waits()
		e.wrote("patch persistentvolumes/pv-1")
		e.FinishBinding("pv-1")
		call.ends("")
		e.wrote("patch persistentvolumes/pv-1", "create pods/binding/db-0")
		e.boundTo(node7)
		if diff := cmp.Diff([]any{"shop/data-0"}, e.lines()[0].Fields["claims"]); diff != "" {
			t.Errorf("claims in the log (-want +got):\n%s", diff)
		}
	})
}

func TestAPodWithoutClaimsIsOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, builtIn)
		wantText(t, e.bind(request("db-0")), "")
		e.wrote("create pods/binding/db-0")
		if reads := e.Reads(); len(reads) > 0 {
			t.Errorf("reads: %v", reads)
		}
	})
}

func TestPodsWithoutClaimsDoNotWaitForOthers(t *testing.T) {
	bubble(t, func(t *testing.T) { // S47
		e := start(t, builtIn)
		var waiting []*caller
		for i := range 100 {
			name := fmt.Sprintf("slow-%d", i)
			e.Put(testkit.Pod(name).Uses(name), testkit.Claim(name).Class("fast"))
			synctest.Wait()
			waiting = append(waiting, e.call(request(name)))
		}
		before := time.Now()
		wantText(t, e.bind(request("db-0")), "")
		if took := time.Since(before); took > 0 {
			t.Errorf("it took %s", took)
		}
		for _, call := range waiting {
			call.waits()
			call.hangUp()
			call.ends(hungUp)
		}
	})
}

func TestNothingIsBoundWhenVolumesCanNotBe(t *testing.T) {
	const reserve, preBind = ` [running Reserve plugin "VolumeBinding"]`, ` [running PreBind plugin "VolumeBinding"]`
	t.Run("no volume", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, builtIn, withClaim(), testkit.Claim("data-0"), testkit.Volume("pv-1").OnHost("node-8"))
			wantText(t, e.bind(request("db-0")), "NoVolume: claim shop/data-0 (class local): node node-7: node(s) didn't find available persistent volumes to bind (1 volumes considered, class provisions none)"+reserve)
			e.wrote()
		})
	})
	t.Run("provisioning fails", func(t *testing.T) {
		bubble(t, func(t *testing.T) { // S17
			e := start(t, builtIn, withClaim(), testkit.Claim("data-0").Class("fast"))
			call := e.call(request("db-0"))
			e.Put(testkit.Event("w", e.Claim("data-0"), v1.EventTypeWarning, "ProvisioningFailed", "rpc error: quota exceeded", 5))
			e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { c.Annotations = nil })
			call.ends("ProvisioningFailed: claim shop/data-0 (class fast): node-7: ProvisioningFailed: rpc error: quota exceeded" + preBind)
			e.wrote("patch persistentvolumeclaims/data-0")
		})
	})
	t.Run("the time is over", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, builtIn, withClaim(), testkit.Claim("data-0").Class("fast"))
			call := e.call(request("db-0"))
			<-call.done
			call.ends("BindTimeout: claim shop/data-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7; volumes.bindTimeout (10m0s) is over" + preBind)
			e.wrote("patch persistentvolumeclaims/data-0")
		})
	})
	t.Run("nothing was reserved", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, plugins{binder.PreBind: {binder.VolumeBindingName}, binder.Bind: {binder.DefaultBinderName}}, withClaim())
			wantText(t, e.bind(request("db-0")), "Internal: nothing was reserved for pod shop/db-0"+preBind)
			e.wrote()
		})
	})
}

// A call that was given up goes on where it stopped, on the same node (S08).
func TestARepeatedCallGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, builtIn, testkit.Pod("db-0").Uses("data-0", "log-0"), testkit.Claim("data-0"), onNode7("pv-1"), onNode7("pv-2").Size("20Gi"), testkit.Claim("log-0").Class("fast"))
		first := e.call(request("db-0"))
		first.hangUp()
		first.ends(hungUp)
		second := e.call(request("db-0"))
		second.waits()
		e.FinishBinding("pv-1")
		e.Provision("log-0", onNode7("pv-new").Class("fast"))
		second.ends("")
		if n := len(e.Writes()); n != 3 {
			t.Errorf("writes: %v", e.Writes())
		}
		e.boundTo(node7)
	})
}

// For another node it does not take back what the first one began (S15 b).
func TestARepeatedCallForAnotherNodeMovesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, builtIn, testkit.Node("node-8"), withClaim(), testkit.Claim("data-0").Class("fast"))
		first := e.call(request("db-0"))
		first.hangUp()
		first.ends(hungUp)
		wantText(t, e.bind(elsewhere("db-0")), "SelectedNodeConflict: claim shop/data-0 (class fast): it is being provisioned for node node-7, not node-8: only the provisioner may give it back"+` [running Reserve plugin "VolumeBinding"]`)
		e.wrote("patch persistentvolumeclaims/data-0")
	})
}
