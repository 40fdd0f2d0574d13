package binder_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
)

const binding = "pods/binding"

// posts has spy a before the Binding and spy b after it.
var posts = plugins{binder.PreBind: {"a"}, binder.Bind: {binder.DefaultBinderName}, binder.PostBind: {"b"}}

var errServer = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))

func conflict(text string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: binding}, "db-0", errors.New(text))
}

// answer makes the nth POST fail without having been applied.
func (e *env) answer(nth int, err error) {
	e.Before("create", binding, nth, func(testkit.Request) error { return err })
}

// meanwhile changes something just before the next POST is looked at.
func (e *env) meanwhile(f func()) {
	e.Before("create", binding, 1, func(testkit.Request) error { f(); return nil })
}

func TestDefaultBinderPostsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		wantText(t, e.bind(request("db-0")), "")
		e.wrote("create pods/binding/db-0")
		e.boundTo(node7)
		e.did("preBind a", "postBind b")
		if reads := e.Reads(); len(reads) > 0 {
			t.Errorf("a clear answer needs no look, yet: %v", reads)
		}
	})
}

func TestDefaultBinderLooksAfterALostAnswer(t *testing.T) {
	lost := map[string]error{
		"time-out of etcd":   errServer,
		"server time-out":    apierrors.NewTimeoutError("request timed out", 1),
		"connection cut":     errors.New("read tcp: connection reset by peer"),
		"client's own limit": context.DeadlineExceeded,
		"too many, they say": apierrors.NewTooManyRequests("slow down", 1),
		"a conflict, even":   conflict("pod db-0 is already assigned to node \"node-7\""),
	}
	for name, err := range lost {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { // S08
				e := start(t, posts)
				e.After("create", binding, 1, func(testkit.Request) error { return err })
				wantText(t, e.bind(request("db-0")), "")
				e.wrote("create pods/binding/db-0 (lost)")
				e.boundTo(node7)
			})
		})
	}
}

func TestDefaultBinderWhenThePodHasChanged(t *testing.T) {
	change := func(f func(*v1.Pod)) func(e *env) {
		return func(e *env) { e.ChangePod("db-0", f) }
	}
	tests := map[string]struct {
		meanwhile func(e *env)
		want      string
	}{
		"somebody bound it to the same node (S10)": {change(func(p *v1.Pod) { p.Spec.NodeName = node7 }), ""},
		"somebody bound it to another node (S10)": {
			change(func(p *v1.Pod) { p.Spec.NodeName = "node-8" }),
			`PodAssigned: pod shop/db-0: it is on node node-8 already, so it can not be bound to node node-7 [running Bind plugin "DefaultBinder"]`,
		},
		"it was made anew (S11)": {
			func(e *env) { e.Put(testkit.Pod("db-0").WithUID("new")) },
			`PodReplaced: pod shop/db-0: it was deleted and made anew (uid new, was uid-db-0) [running Bind plugin "DefaultBinder"]`,
		},
		"it was made anew and is on the node (S11)": {
			func(e *env) { e.Put(testkit.Pod("db-0").WithUID("new").OnNode(node7)) },
			`PodReplaced: pod shop/db-0: it was deleted and made anew (uid new, was uid-db-0) [running Bind plugin "DefaultBinder"]`,
		},
		"it was deleted": {
			func(e *env) { e.Remove("pods", "db-0") },
			`PodNotFound: pod shop/db-0 does not exist [running Bind plugin "DefaultBinder"]`,
		},
		"it is being deleted": {
			change(func(p *v1.Pod) { testkit.PodBuilder{Pod: p}.Terminating() }),
			`PodTerminating: pod shop/db-0: it is being deleted [running Bind plugin "DefaultBinder"]`,
		},
		"it was gated": {
			change(func(p *v1.Pod) { testkit.PodBuilder{Pod: p}.Gated("wait") }),
			`PodGated: pod shop/db-0: it has scheduling gate "wait" [running Bind plugin "DefaultBinder"]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, posts)
				e.meanwhile(func() { tc.meanwhile(e) })
				before := time.Now()
				wantText(t, e.bind(request("db-0")), tc.want)
				if took := time.Since(before); took > 0 || len(e.Writes()) != 1 {
					t.Errorf("it took %s and %v", took, e.Writes())
				}
			})
		})
	}
}

func TestDefaultBinderRetriesWhatMayPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		e.answer(1, errServer)
		e.answer(2, apierrors.NewTooManyRequests("slow down", 1))
		e.answer(3, errors.New("connect: connection refused"))
		wantText(t, e.bind(request("db-0")), "")
		e.wrote("create pods/binding/db-0 (500)", "create pods/binding/db-0 (429)",
			"create pods/binding/db-0 (connect: connection refused)", "create pods/binding/db-0")
		if diff := cmp.Diff([]string{
			"prebind_api_write_retries_total{after=conflict object=pods/binding} 0",
			"prebind_api_write_retries_total{after=no_answer object=pods/binding} 1",
			"prebind_api_write_retries_total{after=server_error object=pods/binding} 1",
			"prebind_api_write_retries_total{after=throttled object=pods/binding} 1",
			"prebind_api_writes_total{object=pods/binding result=no_answer} 1",
			"prebind_api_writes_total{object=pods/binding result=server_error} 1",
			"prebind_api_writes_total{object=pods/binding result=success} 1",
			"prebind_api_writes_total{object=pods/binding result=throttled} 1",
		}, testkit.Samples(t, e.metrics, "prebind_api_writes_total", "prebind_api_write_retries_total")); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}

// Neither the POST nor the look at the pod gets an answer; the POST was
// applied.
func TestDefaultBinderFindsOutInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		e.After("create", binding, 1, func(testkit.Request) error { return errServer })
		e.Before("get", "pods", 1, func(testkit.Request) error { return errors.New("connect: connection refused") })
		wantText(t, e.bind(request("db-0")), "")
		e.wrote("create pods/binding/db-0 (lost)", "create pods/binding/db-0 (409)")
	})
}

func TestDefaultBinderDoesNotRetryWhatIsFinal(t *testing.T) {
	tests := map[string]struct {
		answer error
		want   string
	}{
		"RBAC refuses (S40)": {
			apierrors.NewForbidden(schema.GroupResource{Resource: binding}, "db-0", errors.New("User cannot create")),
			`Forbidden: create pods/binding shop/db-0: RBAC refuses it; give prebind's ServiceAccount the rights of its manifest: pods/binding "db-0" is forbidden: User cannot create [running Bind plugin "DefaultBinder"]`,
		},
		"the request is bad": {
			apierrors.NewBadRequest("odd"), `APIError: create pods/binding shop/db-0: odd [running Bind plugin "DefaultBinder"]`,
		},
		"the Binding is invalid": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, "db-0", nil),
			`APIError: create pods/binding shop/db-0: Binding "db-0" is invalid [running Bind plugin "DefaultBinder"]`,
		},
		"a conflict that nothing explains": {
			conflict("odd"),
			`Conflict: pod shop/db-0: binding to node node-7: Operation cannot be fulfilled on pods/binding "db-0": odd [running Bind plugin "DefaultBinder"]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, posts)
				e.answer(0, tc.answer)
				wantText(t, e.bind(request("db-0")), tc.want)
				if writes := e.Writes(); len(writes) != 1 {
					t.Errorf("writes: %v", writes)
				}
				e.did("preBind a")
			})
		})
	}
}

func TestDefaultBinderGivesUpInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		e.answer(0, errServer)
		before := time.Now()
		wantText(t, e.bind(request("db-0")), `APIError: pod shop/db-0: binding to node node-7: Internal error occurred: etcdserver: request timed out [running Bind plugin "DefaultBinder"]`)
		if took, n := time.Since(before), len(e.Writes()); took > 10*time.Second || n < 4 || n > 10 {
			t.Errorf("%d POSTs in %s", n, took)
		}
	})
}

func TestDefaultBinderEndsWithTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error {
			<-time.After(bindTimeout - time.Second)
			return nil
		}
		e.answer(0, errServer)
		call := e.call(request("db-0"))
		<-call.done
		if code := fault.CodeOf(call.err); code != fault.BindTimeout || call.took != bindTimeout {
			t.Errorf("error %q after %s", text(call.err), call.took)
		}
	})
}

func TestDefaultBinderPostsNothingAfterTheEnd(t *testing.T) {
	tests := map[string]func(e *env, call *caller){
		"the caller has gone": func(_ *env, call *caller) { call.hangUp() },
		"the time is over":    func(*env, *caller) { <-time.After(bindTimeout) },
		"shutdown":            func(e *env, _ *caller) { e.b.Shutdown() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, posts)
				open := make(chan struct{})
				e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { <-open; return nil }
				call := e.call(request("db-0"))
				end(e, call)
				synctest.Wait()
				close(open)
				<-call.done
				synctest.Wait()
				if call.err == nil {
					t.Error("success")
				}
				e.wrote()
			})
		})
	}
}

// A Binding that was sent is followed to its outcome, whoever has gone.
func TestDefaultBinderFinishesWhatItHasSent(t *testing.T) {
	tests := map[string]struct {
		end  func(e *env, call *caller)
		want string
	}{
		"the caller has gone": {func(_ *env, call *caller) { call.hangUp() }, hungUp},
		"shutdown":            {func(e *env, _ *caller) { e.b.Shutdown() }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, posts)
				open := make(chan struct{})
				e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { <-open; return nil }
				call := e.call(request("db-0"))
				e.meanwhile(func() { tc.end(e, call) })
				e.After("create", binding, 1, func(testkit.Request) error { return errServer })
				close(open)
				call.ends(tc.want)
				e.wrote("create pods/binding/db-0 (lost)")
				e.did("preBind a", "postBind b")
				if diff := cmp.Diff([]any{"bound"}, e.outcomes()); diff != "" {
					t.Errorf("outcomes in the log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// One that failed is not sent again.
func TestDefaultBinderDoesNotRetryForACallerThatHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, posts)
		open := make(chan struct{})
		e.spies["a"].do["preBind"] = func(context.Context, *binder.Call) error { <-open; return nil }
		call := e.call(request("db-0"))
		e.Before("create", binding, 0, func(testkit.Request) error { call.hangUp(); return errServer })
		close(open)
		call.ends(hungUp)
		e.wrote("create pods/binding/db-0 (500)")
		e.boundTo("")
	})
}
