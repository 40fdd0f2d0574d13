package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: testkit.Namespace, Name: name}
}

func (e *env) waits(want ...volumes.Wait) {
	e.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, e.p.Waits(), cmpopts.EquateEmpty()); diff != "" {
		e.t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestWaitsAreListedWhileTheyLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := testkit.Pod("db-0").Uses("data-0", "log-0"), testkit.Pod("db-1").Uses("data-1")
		e := start(t, first, second, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"),
			testkit.Claim("data-1").Class("fast").Selected(node7)) // asked for before this call
		e.waits()
		began := time.Now()
		one := e.call(first)
		<-time.After(time.Second)
		other := e.call(second)
		toFinish := volumes.WaitingClaim{Name: "data-0", Class: "local", Cause: "pv_controller", For: "the PV controller to finish the binding to volume pv-1"}
		toProvision := volumes.WaitingClaim{Name: "log-0", Class: "fast", Cause: "provisioner", For: "provisioner csi.example.com to make a volume for node node-7"}
		waitOne := volumes.Wait{Pod: named("db-0"), UID: "uid-db-0", Node: node7, Since: began, Claims: []volumes.WaitingClaim{toFinish, toProvision}}
		waitOther := volumes.Wait{Pod: named("db-1"), UID: "uid-db-1", Node: node7, Since: began.Add(time.Second), Claims: []volumes.WaitingClaim{
			{Name: "data-1", Class: "fast", Cause: "provisioner", For: toProvision.For},
		}}
		e.waits(waitOne, waitOther)

		e.FinishBinding("pv-1")
		waitOne.Claims = []volumes.WaitingClaim{toProvision}
		e.waits(waitOne, waitOther)

		e.Hold("persistentvolumes") // its volume is not seen yet
		e.Provision("log-0", onNode7("pv-2").Class("fast"))
		waitOne.Claims = []volumes.WaitingClaim{{Name: "log-0", Class: "fast", Cause: "volume", For: "volume pv-2 to appear"}}
		e.waits(waitOne, waitOther)
		e.Release("persistentvolumes")
		e.waits(waitOther)
		one.ends("")

		e.Remove("pods", "db-1")
		<-other.done
		e.waits()
	})
}

func TestReservationsAreListedWhileTheyLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "log-0")
		e := start(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
		e.Hold("persistentvolumes")
		e.Hold("persistentvolumeclaims")
		began := time.Now()
		call := e.call(pod)
		<-time.After(time.Second)
		want := []volumes.Held{
			{Claim: named("data-0"), Volume: "pv-1", Node: node7, Since: began, Written: true},
			{Claim: named("log-0"), Node: node7, Since: began, Written: true},
		}
		if diff := cmp.Diff(want, e.p.Reservations()); diff != "" {
			t.Errorf("reservations (-want +got):\n%s", diff)
		}
		e.Release("persistentvolumes")
		e.Release("persistentvolumeclaims")
		synctest.Wait()
		if got := e.p.Reservations(); len(got) > 0 {
			t.Errorf("still reserved: %v", got)
		}
		e.FinishBinding("pv-1")
		e.Provision("log-0", onNode7("pv-2").Class("fast"))
		call.ends("")
	})
}
