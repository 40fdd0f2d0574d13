package binder_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/internal/testkit"
)

// A write that fails, or whose answer is lost.
func TestNominationInTrouble(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: podStatus}, "db-0", errors.New("no"))
	answer := func(err error) func(e *env) {
		return func(e *env) { e.Before("patch", podStatus, 1, func(testkit.Request) error { return err }) }
	}
	tests := map[string]struct {
		given     func(e *env)
		nominated string   // while the call waits
		then      []string // all nominations, after the call was given up
		warnings  int
	}{
		"refused": {
			given: answer(forbidden), then: []string{"patch pods/status/db-0 (403)"}, warnings: 1,
		},
		"fails once": {
			given: answer(errServer), nominated: node7,
			then: []string{"patch pods/status/db-0 (500)", "patch pods/status/db-0", "patch pods/status/db-0"},
		},
		"the answer is lost": {
			given:     func(e *env) { e.After("patch", podStatus, 1, func(testkit.Request) error { return errServer }) },
			nominated: node7, then: []string{"patch pods/status/db-0 (lost)", "patch pods/status/db-0"},
		},
		"the pod has changed": {
			given: func(e *env) {
				e.Before("patch", podStatus, 1, func(testkit.Request) error {
					e.ChangePod("db-0", func(pod *v1.Pod) { pod.Status.Message = "changed" })
					return nil
				})
			},
			nominated: node7, then: []string{"patch pods/status/db-0 (409)", "patch pods/status/db-0", "patch pods/status/db-0"},
		},
		"the pod is gone": {
			given: func(e *env) {
				e.Before("patch", podStatus, 1, func(testkit.Request) error {
					e.Remove("pods", "db-0")
					e.Put(withClaim().WithUID("uid-new"))
					return nil
				})
			},
			then: []string{"patch pods/status/db-0 (409)"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := startNominating(t, builtIn)
				tc.given(e)
				call := e.call(request("db-0"))
				time.Sleep(5 * time.Second)
				e.nominated(tc.nominated)
				call.hangUp()
				<-call.done
				if err := e.b.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.nominated("")
				if diff := cmp.Diff(tc.then, e.nominations()); diff != "" {
					t.Errorf("nominations (-want +got):\n%s", diff)
				}
				if n := e.logs.FilterMessageSnippet("nominat").Len(); n != tc.warnings {
					t.Errorf("%d warnings, want %d", n, tc.warnings)
				}
			})
		})
	}
}

// The API server is away: the answer to the scheduler does not wait for it for ever.
func TestNominationCanNotBeTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominating(t, builtIn)
		call := e.call(request("db-0"))
		e.nominated(node7)
		for _, verb := range []string{"patch pods/status", "get pods"} {
			verb, resource, _ := strings.Cut(verb, " ")
			e.Before(verb, resource, 0, func(testkit.Request) error { return errServer })
		}
		<-call.done
		if over := call.took - bindTimeout; over <= 0 || over > 6*time.Second {
			t.Errorf("the answer came %s after the time-out", over)
		}
		if n := e.logs.FilterMessageSnippet("could not be taken back").Len(); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		e.nominated(node7)
	})
}

// late makes the first write take a second to arrive.
func late() func(testkit.Request) testkit.Fault {
	first := true
	return func(r testkit.Request) testkit.Fault {
		if r.Verb != "patch" || !first {
			return testkit.Fault{}
		}
		first = false
		return testkit.Fault{Delay: time.Second}
	}
}

// The pod is bound while its nomination is on its way: nobody waits for it, and it
// comes too late.
func TestNominationRacesTheBinding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominatingWith(t, late(), builtIn)
		call := e.call(request("db-0"))
		e.Provision("data-0", onNode7("pv-new").Class("fast"))
		call.ends("")
		if call.took > 0 {
			t.Errorf("the call took %s", call.took)
		}
		time.Sleep(2 * time.Second)
		e.nominated("")
		if diff := cmp.Diff([]string{"patch pods/status/db-0 (409)"}, e.nominations()); diff != "" {
			t.Errorf("nominations (-want +got):\n%s", diff)
		}
	})
}

// The call ends while its nomination is on its way: that is waited for, or it would
// stay.
func TestNominationRacesTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := startNominatingWith(t, late(), builtIn)
		call := e.call(request("db-0"))
		call.hangUp()
		call.ends(hungUp)
		time.Sleep(2 * time.Second)
		e.nominated("")
		if diff := cmp.Diff([]string{"patch pods/status/db-0", "patch pods/status/db-0"}, e.nominations()); diff != "" {
			t.Errorf("nominations (-want +got):\n%s", diff)
		}
	})
}
