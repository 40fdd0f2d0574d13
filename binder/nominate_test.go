package binder_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/testkit"
)

const podStatus = "pods/status"

// startNominating returns an env in which pod db-0 has claim data-0 of class fast,
// and waiting pods are nominated.
func startNominating(t *testing.T, enabled plugins, objects ...runtime.Object) *env {
	t.Helper()
	return startNominatingWith(t, func(testkit.Request) testkit.Fault { return testkit.Fault{} }, enabled, objects...)
}

// startNominatingWith does so with what goes wrong with the requests.
func startNominatingWith(t *testing.T, fault func(testkit.Request) testkit.Fault, enabled plugins, objects ...runtime.Object) *env {
	t.Helper()
	return startWith(t, func(e *env, cfg *binder.Config) {
		client := e.NewClient() // heeds the context of a request
		client.Fault = fault
		cfg.Nominator = client
		cfg.ProvisioningLimits = binder.ProvisioningLimits{PerClass: 1}
	}, enabled, append([]runtime.Object{withClaim(), testkit.Claim("data-0").Class("fast")}, objects...)...)
}

// spied is the default configuration with a spy before each step.
var spied = plugins{
	binder.Permit:  {"a"},
	binder.Reserve: {binder.VolumeBindingName},
	binder.PreBind: {"a", binder.VolumeBindingName, "b"},
	binder.Bind:    {binder.DefaultBinderName},
}

// nominated checks the pod's nomination.
func (e *env) nominated(want string) {
	e.t.Helper()
	synctest.Wait()
	if got := e.Pod("db-0").Status.NominatedNodeName; got != want {
		e.t.Errorf("pod db-0 is nominated to %q, want %q", got, want)
	}
}

// nominations returns the writes to the status of pods, in order.
func (e *env) nominations() []string {
	return slices.DeleteFunc(e.Writes(), func(write string) bool { return !strings.Contains(write, podStatus) })
}

func TestNominationOfAPodThatIsProvisionedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominating(t, builtIn)
		call := e.call(request("db-0"))
		e.nominated(node7) // at once
		if diff := cmp.Diff([]string{"patch pods/status/db-0"}, e.nominations()); diff != "" {
			t.Errorf("nominations (-want +got):\n%s", diff)
		}
		e.Provision("data-0", onNode7("pv-new").Class("fast"))
		call.ends("")
		e.boundTo(node7)
		if n := len(e.Writes()); n != 3 { // the status once, the claim, and the Binding
			t.Errorf("writes: %v", e.Writes())
		}
	})
}

func TestNominationOfAPodThatGetsAVolume(t *testing.T) {
	for wait, want := range map[time.Duration]string{1999 * time.Millisecond: "", 2001 * time.Millisecond: node7} {
		t.Run(wait.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startNominating(t, builtIn, testkit.Claim("data-0"), onNode7("pv-1"))
				call := e.call(request("db-0"))
				time.Sleep(wait)
				e.nominated(want)
				e.FinishBinding("pv-1")
				call.ends("")
				time.Sleep(time.Minute)
				if got := len(e.nominations()); got != len(want)/len(node7) {
					t.Errorf("nominations: %v", e.nominations())
				}
			})
		})
	}
}

func TestNominationOfAPodThatWaitsForItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominating(t, limiting, testkit.Pod("first").Uses("first"), testkit.Claim("first").Class("fast"))
		first, call := e.call(request("first")), e.call(request("db-0"))
		e.provisioning("first")
		e.nominated(node7)
		call.hangUp()
		call.ends(hungUp)
		e.nominated("")
		first.hangUp()
	})
}

func TestNominationIsOffByDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, builtIn, withClaim(), testkit.Claim("data-0").Class("fast"))
		call := e.call(request("db-0"))
		time.Sleep(time.Minute)
		e.wrote("patch persistentvolumeclaims/data-0")
		call.hangUp()
	})
}

func TestNominationOfAPodWithoutClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominating(t, spied, testkit.Pod("plain"))
		open := make(chan struct{})
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { <-open; return nil }
		call := e.call(request("plain"))
		time.Sleep(time.Minute)
		close(open)
		call.ends("")
		e.wrote("create pods/binding/plain")
	})
}

// Whatever ends the call without a Binding, the nomination is taken back, before
// the scheduler has its answer.
func TestNominationIsTakenBack(t *testing.T) {
	tests := map[string]func(e *env, call *caller){
		"provisioning fails": func(e *env, _ *caller) {
			e.ChangeClaim("data-0", func(c *v1.PersistentVolumeClaim) { c.Annotations = nil })
		},
		"time is over":        func(_ *env, call *caller) { <-call.done },
		"the caller hangs up": func(_ *env, call *caller) { call.hangUp() },
		"shutdown":            func(e *env, _ *caller) { e.b.Shutdown() },
		"the node is deleted": func(e *env, _ *caller) { e.Remove("nodes", node7) },
		"the pod is being deleted": func(e *env, _ *caller) {
			e.ChangePod("db-0", func(pod *v1.Pod) { testkit.PodBuilder{Pod: pod}.Terminating() })
		},
		"the pod was changed meanwhile, too": func(e *env, call *caller) {
			e.ChangePod("db-0", func(pod *v1.Pod) { pod.Status.Message = "changed" })
			call.hangUp()
		},
		"a plugin fails": func(e *env, _ *caller) {
			e.spies["b"].do["preBind"] = func(context.Context, *binder.Call) error { return errors.New("no") }
			e.Provision("data-0", onNode7("pv-new").Class("fast"))
		},
		"a plugin panics": func(e *env, _ *caller) {
			e.spies["b"].do["preBind"] = func(context.Context, *binder.Call) error { panic("a bug") }
			e.Provision("data-0", onNode7("pv-new").Class("fast"))
		},
		"the Binding is refused": func(e *env, _ *caller) {
			e.answer(1, apierrors.NewForbidden(schema.GroupResource{Resource: binding}, "db-0", errors.New("no")))
			e.Provision("data-0", onNode7("pv-new").Class("fast"))
		},
		"the answer of taking it back is lost": func(e *env, call *caller) {
			e.After("patch", podStatus, 1, func(testkit.Request) error { return errServer })
			call.hangUp()
		},
		"taking it back fails twice": func(e *env, call *caller) {
			for n := range 2 {
				e.Before("patch", podStatus, n+1, func(testkit.Request) error { return errServer })
			}
			call.hangUp()
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startNominating(t, spied)
				call := e.call(request("db-0"))
				e.nominated(node7)
				end(e, call)
				<-call.done
				if call.err == nil {
					t.Fatal("the call did not fail")
				}
				if err := e.b.Wait(t.Context()); err != nil { // the cycle of a caller that has gone
					t.Fatal(err)
				}
				e.nominated("")
				if bodies := e.Bodies(); !strings.Contains(bodies[len(bodies)-1], `{"nominatedNodeName":null}`) {
					t.Errorf("the last patch is %s", bodies[len(bodies)-1])
				}
			})
		})
	}
}

func TestNominationLeavesWhatIsNotOurs(t *testing.T) {
	nominate := func(node string) func(pod *v1.Pod) { return func(pod *v1.Pod) { pod.Status.NominatedNodeName = node } }
	tests := map[string]struct {
		before func(e *env)               // before the call
		during func(e *env, call *caller) // and then it hangs up
		writes int                        // to the pod's status
		want   string
	}{
		"nominated to another node before": {
			before: func(e *env) { e.ChangePod("db-0", nominate("node-8")) }, want: "node-8",
		},
		"nominated to this node before": {
			before: func(e *env) { e.ChangePod("db-0", nominate(node7)) }, want: node7,
		},
		"nominated before, and the cache does not know": {
			before: func(e *env) { e.Hold("pods"); e.ChangePod("db-0", nominate("node-8")) }, writes: 1, want: "node-8",
		},
		"nominated before, and only a filter call has brought the pod": {
			before: func(e *env) {
				e.Remove("pods", "db-0")
				synctest.Wait()
				e.Hold("pods")
				e.Put(withClaim())
				e.ChangePod("db-0", nominate("node-8"))
				shown := e.Pod("db-0")
				shown.Status = v1.PodStatus{}
				e.volumes.Seen(shown)
			}, want: "node-8",
		},
		"nominated to another node during the call": {
			during: func(e *env, _ *caller) { e.ChangePod("db-0", nominate("node-8")) }, writes: 2, want: "node-8",
		},
		"the pod is made anew": {
			during: func(e *env, _ *caller) {
				e.Remove("pods", "db-0")
				e.Put(testkit.Pod("db-0").WithUID("uid-new").Uses("data-0"))
				e.ChangePod("db-0", nominate(node7))
			}, writes: 2, want: node7,
		},
		"the pod is assigned by somebody": {
			during: func(e *env, _ *caller) {
				e.ChangePod("db-0", func(pod *v1.Pod) { testkit.PodBuilder{Pod: pod}.OnNode("node-8") })
			}, writes: 2, want: node7,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startNominating(t, builtIn)
				if tc.before != nil {
					tc.before(e)
				}
				synctest.Wait()
				req := request("db-0")
				req.UID = e.Pod("db-0").UID
				call := e.call(req)
				time.Sleep(time.Minute)
				if tc.during != nil {
					tc.during(e, call)
				}
				call.hangUp()
				e.Release("pods")
				<-call.done
				if err := e.b.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.nominated(tc.want)
				if got := e.nominations(); len(got) != tc.writes {
					t.Errorf("nominations: %q, want %d", got, tc.writes)
				}
			})
		})
	}
}

// The cache still shows the nomination that the pod's last call has taken back.
func TestNominationByTheNextCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominating(t, builtIn)
		first := e.call(request("db-0"))
		e.nominated(node7)
		e.Hold("pods")
		first.hangUp()
		if err := e.b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.nominated("")
		second := e.call(request("db-0"))
		e.nominated(node7)
		second.hangUp()
		e.Release("pods")
		e.nominated("")
	})
}
