package binder_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/testkit"
)

// admitOnly has one plugin, so that what admission lets through is seen.
var admitOnly = plugins{binder.Bind: {"a"}}

func TestAdmission(t *testing.T) {
	db0 := func() testkit.PodBuilder { return testkit.Pod("db-0") }
	cached := func(pod testkit.PodBuilder) func(e *env) {
		return func(e *env) { e.Put(pod); synctest.Wait() }
	}
	// live puts the pod where the cache does not see it.
	live := func(pod testkit.PodBuilder) func(e *env) {
		return func(e *env) { e.Hold("pods"); e.Put(pod) }
	}
	tests := map[string]struct {
		given  func(e *env)
		reads  []string
		refuse string // "" lets the call through
	}{
		"a pod that the cache shows as the call has it": {cached(db0()), nil, ""},
		"a pod that the cache does not show yet": {
			func(e *env) { e.Remove("pods", "db-0"); synctest.Wait(); live(db0())(e) },
			[]string{"get pods/db-0"},
			"",
		},
		"a pod made anew, of which the cache shows the old one (S11)": {
			func(e *env) { cached(db0().WithUID("old"))(e); live(db0())(e) },
			[]string{"get pods/db-0"},
			"",
		},
		"a pod that was gated when the cache saw it": {
			func(e *env) { cached(db0().Gated("wait"))(e); live(db0())(e) },
			[]string{"get pods/db-0"},
			"",
		},
		"a pod that does not exist": {
			func(e *env) { e.Remove("pods", "db-0"); synctest.Wait() },
			[]string{"get pods/db-0 (404)"},
			"PodNotFound: pod shop/db-0 does not exist",
		},
		"a pod of the same name (S11)": {
			cached(db0().WithUID("new")),
			[]string{"get pods/db-0"},
			"PodReplaced: pod shop/db-0: it was deleted and made anew (uid new, was uid-db-0)",
		},
		"a pod on another node (S10)": {
			cached(db0().OnNode("node-8")),
			[]string{"get pods/db-0"},
			"PodAssigned: pod shop/db-0: it is on node node-8 already, so it can not be bound to node node-7",
		},
		"a terminating pod": {
			cached(db0().Terminating()),
			[]string{"get pods/db-0"},
			"PodTerminating: pod shop/db-0: it is being deleted",
		},
		"a gated pod": {
			cached(db0().Gated("wait")),
			[]string{"get pods/db-0"},
			`PodGated: pod shop/db-0: it has scheduling gate "wait"`,
		},
		"a node that the cache does not show yet": {
			func(e *env) {
				e.Remove("nodes", node7)
				synctest.Wait()
				e.Hold("nodes")
				e.Put(testkit.Node(node7))
			},
			[]string{"get nodes/node-7"},
			"",
		},
		"a node that does not exist": {
			func(e *env) { e.Remove("nodes", node7); synctest.Wait() },
			[]string{"get nodes/node-7 (404)"},
			"NodeNotFound: node node-7 does not exist",
		},
		"an API server that does not answer about the pod": {
			func(e *env) {
				e.Remove("pods", "db-0")
				synctest.Wait()
				e.Before("get", "pods", 1, func(testkit.Request) error { return apierrors.NewInternalError(errors.New("no leader")) })
			},
			[]string{"get pods/db-0 (500)"},
			"APIError: get pods shop/db-0: Internal error occurred: no leader",
		},
		"an API server that refuses to show the node (S40)": {
			func(e *env) {
				e.Remove("nodes", node7)
				synctest.Wait()
				e.Before("get", "nodes", 1, func(testkit.Request) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, node7, errors.New("User cannot get"))
				})
			},
			[]string{"get nodes/node-7 (403)"},
			`Forbidden: get nodes node-7: RBAC refuses it; give prebind's ServiceAccount the rights of its manifest: nodes "node-7" is forbidden: User cannot get`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, admitOnly)
				tc.given(e)
				wantText(t, e.bind(request("db-0")), tc.refuse)
				if diff := cmp.Diff(tc.reads, e.Reads()); diff != "" {
					t.Errorf("reads (-want +got):\n%s", diff)
				}
				e.wrote()
				if tc.refuse == "" {
					e.did("bind a")
				} else {
					e.did()
				}
			})
		})
	}
}

// The answer to an earlier call may have been lost (S08).
func TestAdmissionOfAPodThatIsOnTheNodeAlready(t *testing.T) {
	tests := map[string]runtime.Object{
		"it runs":                     testkit.Pod("db-0").Uses("data-0").OnNode(node7),
		"it is already being deleted": testkit.Pod("db-0").Uses("data-0").OnNode(node7).Terminating(),
	}
	for name, pod := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, builtIn, pod, testkit.Claim("data-0"), testkit.Volume("pv-1"))
				wantText(t, e.bind(request("db-0")), "")
				e.wrote()
			})
		})
	}
	t.Run("which the cache does not show yet", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			e := start(t, builtIn)
			e.Hold("pods")
			e.ChangePod("db-0", func(p *v1.Pod) { p.Spec.NodeName = node7 })
			wantText(t, e.bind(request("db-0")), "")
			e.wrote("create pods/binding/db-0 (409)") // nothing lost: the refusal is looked into
		})
	})
}

func TestAdmissionOfCallsThatAreNotValid(t *testing.T) {
	tests := map[string]struct {
		change func(*binder.Request)
		want   string
	}{
		"all is missing": {
			func(r *binder.Request) { *r = binder.Request{} },
			"InvalidRequest: PodName is missing; PodNamespace is missing; PodUID is missing; Node is missing",
		},
		"a name that is a path": {
			func(r *binder.Request) { r.Name = "../secrets/x" },
			"InvalidRequest: PodName is not valid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		},
		"a namespace that is none": {
			func(r *binder.Request) { r.Namespace = "a.b" },
			"InvalidRequest: PodNamespace is not valid: must not contain dots",
		},
		"no uid": {
			func(r *binder.Request) { r.UID = "" },
			"InvalidRequest: PodUID is missing",
		},
		"a node that is none": {
			func(r *binder.Request) { r.Node = "Node 7" },
			"InvalidRequest: Node is not valid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, admitOnly)
				req := request("db-0")
				tc.change(&req)
				wantText(t, e.bind(req), tc.want)
				e.did()
				if reads := e.Reads(); len(reads) > 0 {
					t.Errorf("reads: %v", reads)
				}
			})
		})
	}
}
