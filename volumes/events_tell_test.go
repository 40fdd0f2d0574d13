package volumes_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// listener keeps the events that it is told.
type listener struct {
	mu   sync.Mutex
	told []events.Event
}

func (l *listener) Record(event events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, event)
}

// heard lists what was told since the last call.
func (l *listener) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, e := range l.told {
		kind := v1.EventTypeNormal
		if e.Warning {
			kind = v1.EventTypeWarning
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s %s %s) %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Related.Kind, e.Related.Name, kind, e.Reason, e.Note))
		if e.Action != "BindVolumes" || e.Regarding.UID == "" || e.Related.UID == "" || e.Regarding.Namespace != testkit.Namespace {
			lines = append(lines, fmt.Sprintf("incomplete: %+v", e))
		}
	}
	l.told = nil
	return lines
}

func (l *listener) wants(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, l.heard()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// listened is an env whose events are listened to.
func listened(t *testing.T, objects ...runtime.Object) (*env, *listener) {
	t.Helper()
	l := &listener{}
	return startWith(t, volumes.Config{Events: l}, objects...), l
}

// What both waits for, in events.
const (
	bothOnPod = "Pod db-0 (PersistentVolumeClaim data-0 Normal) WaitingForVolume: node node-7: " +
		"claim shop/data-0 (class local) waits for the PV controller to finish the binding to volume pv-1; " +
		"claim shop/log-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7"
	bothOnData = "PersistentVolumeClaim data-0 (Pod db-0 Normal) WaitingForVolume: " +
		"pod shop/db-0, to be bound to node node-7, waits for the PV controller to finish the binding to volume pv-1"
	bothOnLog = "PersistentVolumeClaim log-0 (Pod db-0 Normal) WaitingForVolume: " +
		"pod shop/db-0, to be bound to node node-7, waits for provisioner csi.example.com to make a volume for node node-7"
)

func TestAPodThatWaitsForAMinuteSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "log-0")
		e, l := listened(t, pod, testkit.Claim("data-0"), onNode7("pv-1"), testkit.Claim("log-0").Class("fast"))
		call := e.call(pod)
		<-time.After(time.Minute - time.Nanosecond)
		l.wants(t) // nothing
		<-time.After(time.Nanosecond)
		l.wants(t, bothOnPod, bothOnData, bothOnLog)

		e.FinishBinding("pv-1") // and once more for what is left, in a minute
		<-time.After(time.Minute - time.Nanosecond)
		l.wants(t)
		<-time.After(time.Nanosecond)
		l.wants(t, "Pod db-0 (PersistentVolumeClaim log-0 Normal) WaitingForVolume: node node-7: "+
			"claim shop/log-0 (class fast) waits for provisioner csi.example.com to make a volume for node node-7", bothOnLog)

		e.Provision("log-0", onNode7("pv-2").Class("fast"))
		call.ends("")
		<-time.After(time.Hour)
		l.wants(t)
	})
}

// Most waits are short, and nobody needs to know of them.
func TestAShortWaitIsNoEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0")
		e, l := listened(t, pod, testkit.Claim("data-0"), onNode7("pv-1"))
		call := e.call(pod)
		<-time.After(59 * time.Second)
		e.FinishBinding("pv-1")
		call.ends("")
		<-time.After(time.Hour)
		l.wants(t)
	})
}

// Claims that pods share are bound one after the other; the minute is the pod's.
func TestTheMinuteIsThatOfThePod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("data-0", "log-0")
		other := testkit.Pod("db-1").Uses("data-0", "log-0")
		e, l := listened(t, pod, other, testkit.Claim("data-0"), testkit.Claim("log-0"), onNode7("pv-1"), onNode7("pv-2"))
		call := e.call(pod)
		<-time.After(40 * time.Second)
		first := slices.IndexFunc([]string{"pv-1", "pv-2"}, func(pv string) bool { return e.claimant(pv) != "" })
		e.FinishBinding([]string{"pv-1", "pv-2"}[first])
		<-time.After(20 * time.Second)
		synctest.Wait()
		if got := l.heard(); len(got) != 2 { // on the pod, and on the second claim
			t.Errorf("after a minute: %q", got)
		}
		e.FinishBinding([]string{"pv-2", "pv-1"}[first])
		call.ends("")
	})
}

func TestFailuresAreToldOnPodAndClaim(t *testing.T) {
	const noFit = "claim shop/log-0 (class fast): volume pv-new: node(s) didn't match PersistentVolume's node affinity: node node-7: no matching NodeSelectorTerms"
	tests := map[string]struct {
		happens func(e *env)
		want    []string
	}{
		"provisioning fails": {
			func(e *env) { warn(e, "rpc error: quota exceeded", 5); e.ChangeClaim("log-0", unselect) },
			[]string{
				"Pod db-0 (PersistentVolumeClaim log-0 Warning) ProvisioningFailed: claim shop/log-0 (class fast): node-7: ProvisioningFailed: rpc error: quota exceeded",
				"PersistentVolumeClaim log-0 (Pod db-0 Warning) ProvisioningFailed: pod shop/db-0: claim shop/log-0 (class fast): node-7: ProvisioningFailed: rpc error: quota exceeded",
			},
		},
		"the volume that is made does not fit the node": {
			func(e *env) { e.Provision("log-0", testkit.Volume("pv-new").OnHost("node-8").Class("fast")) },
			[]string{
				"Pod db-0 (PersistentVolumeClaim log-0 Warning) NodeConflict: " + noFit,
				"PersistentVolumeClaim log-0 (Pod db-0 Warning) NodeConflict: pod shop/db-0: " + noFit,
			},
		},
		"the pod is deleted": {func(e *env) { e.Remove("pods", "db-0") }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := testkit.Pod("db-0").Uses("log-0")
				e, l := listened(t, pod, testkit.Claim("log-0").Class("fast"))
				call := e.call(pod)
				tc.happens(e)
				<-call.done
				if call.err == nil {
					t.Fatal("the call has succeeded")
				}
				l.wants(t, tc.want...)
			})
		})
	}
}

// The scheduler may look at another state than prebind does.
func TestAVolumeThatDoesNotFitTheNodeIsTold(t *testing.T) {
	const misfit = "node(s) didn't match PersistentVolume's node affinity: node node-7"
	bound := testkit.Claim("data-0").Bound("pv-1")
	tests := map[string]struct {
		objects []runtime.Object
		code    fault.Code
		want    string // cause; empty: nothing is told
	}{
		"bound": {
			[]runtime.Object{bound, testkit.Volume("pv-1").OnHost("node-8").ClaimedBy(bound), testkit.Claim("log-0"), onNode7("pv-2")},
			fault.NodeConflict, "claim shop/data-0 (class local): volume pv-1: " + misfit + ": no matching NodeSelectorTerms",
		},
		"pre-bound, and not the first thing that is wrong": {
			[]runtime.Object{testkit.Claim("data-0"), testkit.Volume("pv-1").OnHost("node-8").PreBound("data-0")}, // and no claim log-0
			fault.ClaimNotFound, "claim shop/data-0 (class local): it is pre-bound to volume pv-1: " + misfit,
		},
		"something else is wrong": {
			[]runtime.Object{testkit.Claim("data-0"), onNode7("pv-1")},
			fault.ClaimNotFound, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := testkit.Pod("db-0").Uses("data-0", "log-0")
				e, l := listened(t, append([]runtime.Object{pod}, tc.objects...)...)
				call := e.call(pod)
				<-call.done
				if fault.CodeOf(call.err) != tc.code {
					t.Fatalf("error %v", call.err)
				}
				if tc.want == "" {
					l.wants(t)
					return
				}
				l.wants(t,
					"Pod db-0 (PersistentVolumeClaim data-0 Warning) NodeConflict: "+tc.want,
					"PersistentVolumeClaim data-0 (Pod db-0 Warning) NodeConflict: pod shop/db-0: "+tc.want)
			})
		})
	}
}

// The cause of a failure is looked up in events, and prebind's own say it too:
// told again, each would hold the one before.
func TestOwnEventsAreNoCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := testkit.Pod("db-0").Uses("log-0")
		e, _ := listened(t, pod, testkit.Claim("log-0").Class("fast"))
		call := e.call(pod)
		warn(e, "quota exceeded", 5)
		own := testkit.Event("own", e.Claim("log-0"), v1.EventTypeWarning, "ProvisioningFailed", "pod shop/db-0: quota exceeded", 6)
		own.ReportingController = events.Controller
		e.Put(own)
		e.ChangeClaim("log-0", unselect)
		call.endsSoon("ProvisioningFailed: claim shop/log-0 (class fast): node-7: ProvisioningFailed: quota exceeded")
	})
}

// Before anything is reserved: what a plugin says that the pod waits for.
func TestAWaitForTheTurnIsListedAndTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, l := listened(t, testkit.Pod("db-0").Uses("data-0", "log-0"), testkit.Claim("data-0").Class("fast"), testkit.Claim("log-0").Class("fast"))
		began := time.Now()
		watch := e.p.Watch(e.Pod("db-0"), node7)
		wait := volumes.Wait{Pod: named("db-0"), UID: "uid-db-0", Node: node7, Since: began}
		says := func(claims ...string) {
			words := map[string]string{"unseen": "its turn"}
			wait.Claims = nil
			for _, claim := range claims {
				words[claim] = "its turn"
				wait.Claims = append(wait.Claims, volumes.WaitingClaim{Name: claim, Class: "fast", Cause: "provisioning_limit", For: "its turn"})
			}
			watch.WaitsFor(words)
			e.waits(wait)
		}
		says("data-0", "log-0")
		says("log-0")
		<-watch.Notice()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it is time to tell after %s", took)
		}
		watch.Tell()
		l.wants(t, "Pod db-0 (PersistentVolumeClaim log-0 Normal) WaitingForVolume: node node-7: claim shop/log-0 (class fast) waits for its turn",
			"PersistentVolumeClaim log-0 (Pod db-0 Normal) WaitingForVolume: pod shop/db-0, to be bound to node node-7, waits for its turn")
		watch.Close()
		e.waits()
	})
}
