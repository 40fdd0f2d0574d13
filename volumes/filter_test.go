package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

const (
	wantNoVolume = "node(s) didn't find available persistent volumes to bind"
	wantConflict = "node(s) didn't match PersistentVolume's node affinity"
)

// filterCall is a filter call in the background.
type filterCall struct {
	took    time.Duration
	reasons []string
	err     error
	done    chan struct{}
}

func (e *env) filter(pod testkit.PodBuilder, nodes ...string) *filterCall {
	c := &filterCall{done: make(chan struct{})}
	var asked []volumes.Node
	for _, name := range nodes {
		asked = append(asked, volumes.Node{Name: name})
	}
	began := time.Now()
	go func() {
		defer close(c.done)
		c.reasons, c.err = e.p.Filter(e.t.Context(), pod.Pod, asked)
		c.took = time.Since(began)
	}()
	synctest.Wait()
	return c
}

// says checks what the call has answered, and after how long.
func (c *filterCall) says(t *testing.T, took time.Duration, want ...string) {
	t.Helper()
	<-c.done
	if diff := cmp.Diff(want, c.reasons); diff != "" || c.err != nil || c.took != took {
		t.Errorf("after %s, want %s; error %v; reasons (-want +got):\n%s", c.took, took, c.err, diff)
	}
}

// Reasons are kube-scheduler's words, and have no name of a node in them, or the
// event could not count them.
func TestFilterReasons(t *testing.T) {
	bound := testkit.Claim("data").Bound("pv-1")
	lost := testkit.Claim("data").Bound("pv-1")
	lost.Status.Phase = v1.ClaimLost
	foreign := testkit.Claim("scratch")
	plain := testkit.Pod("db-0").Uses("data")
	tests := map[string]struct {
		pod     testkit.PodBuilder
		objects []runtime.Object
		here    string // node-7
		there   string // node-8
	}{
		"a volume here":        {plain, []runtime.Object{testkit.Claim("data"), onNode7("pv-1")}, "", wantNoVolume},
		"a bound claim":        {plain, []runtime.Object{bound, onNode7("pv-1").ClaimedBy(bound)}, "", wantConflict},
		"no claim":             {plain, nil, `persistentvolumeclaim "data" not found`, ""},
		"no ephemeral claim":   {testkit.Pod("db-0").UsesEphemeral("x"), nil, `waiting for ephemeral volume controller to create the persistentvolumeclaim "db-0-x"`, ""},
		"another's claim":      {testkit.Pod("db-0").UsesEphemeral("x"), []runtime.Object{testkit.Claim("db-0-x")}, "PVC shop/db-0-x was not created for pod shop/db-0 (pod is not owner)", ""},
		"a lost claim":         {plain, []runtime.Object{lost}, `persistentvolumeclaim "data" bound to non-existent persistentvolume "pv-1"`, ""},
		"a claim that goes":    {plain, []runtime.Object{testkit.Claim("data").Terminating()}, `persistentvolumeclaim "data" is being deleted`, ""},
		"an immediate claim":   {plain, []runtime.Object{testkit.Class("now").Immediate(), testkit.Claim("data").Class("now")}, "pod has unbound immediate PersistentVolumeClaims", ""},
		"a volume that is not": {plain, []runtime.Object{bound}, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", ""},
		"another's volume":     {plain, []runtime.Object{bound, onNode7("pv-1").ClaimedByUID("data", "old")}, `persistentvolumeclaim "data" bound to persistentvolume "pv-1" of another claim`, ""},
		"being provisioned":    {plain, []runtime.Object{testkit.Claim("data").Class("fast").Selected(node7)}, "", "node(s) weren't the one that a volume is being provisioned for"},
		"a full driver":        {plain, []runtime.Object{testkit.Driver("csi.example.com", true), testkit.Claim("data").Class("fast")}, "node(s) did not have enough free storage", ""},
		"two reasons": {
			testkit.Pod("db-0").Uses("data", "scratch"),
			[]runtime.Object{bound, onNode7("pv-1").ClaimedBy(bound), foreign},
			wantNoVolume, wantNoVolume + ", " + wantConflict,
		},
		"two claims, one reason": {testkit.Pod("db-0").Uses("data", "scratch"), []runtime.Object{testkit.Claim("data"), foreign}, wantNoVolume, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := start(t, append(tc.objects, testkit.Node("node-8"))...)
				took := 25 * time.Millisecond
				if tc.here == "" {
					took = 0
				} else if tc.there == "" {
					tc.there = tc.here // it is the pod's
				}
				e.filter(tc.pod, node7, "node-8", "ghost").says(t, took, tc.here, tc.there, ghostReason(tc.here, tc.there))
			})
		})
	}
}

// ghostReason is what is said of a node that is in no cache.
func ghostReason(here, there string) string {
	podLevel := here == there && here != wantNoVolume && here != "node(s) did not have enough free storage"
	if podLevel {
		return here
	}
	return "node(s) were not known to prebind yet"
}

// A volume that is reserved for another pod's claim is taken.
func TestFilterCountsReservations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := testkit.Pod("other").Uses("other")
		e := start(t, testkit.Claim("other"), testkit.Claim("data"), onNode7("pv-1"), other)
		pod := testkit.Pod("db-0").Uses("data")
		e.filter(pod, node7).says(t, 0, "")
		reservation, err := e.p.Reserve(t.Context(), e.pod(other), node7)
		if err != nil {
			t.Fatal(err)
		}
		e.filter(pod, node7).says(t, 25*time.Millisecond, wantNoVolume)
		e.filter(other, node7).says(t, 0, "")
		e.p.Unreserve(reservation)
		e.filter(pod, node7).says(t, 0, "")
	})
}

// A call that finds no node waits for the watch, but the scheduler is not kept
// waiting often.
func TestFilterWaitsForTheWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := start(t, testkit.Claim("data"))
		pod := testkit.Pod("db-0").Uses("data")
		call := e.filter(pod, node7, "ghost")
		time.Sleep(5 * time.Millisecond)
		e.Put(onNode7("pv-1"))
		call.says(t, 5*time.Millisecond, "", "node(s) were not known to prebind yet")

		// The next call comes too early, and the one after it does not.
		other := testkit.Pod("db-1").Uses("late")
		e.filter(other, node7).says(t, 0, `persistentvolumeclaim "late" not found`)
		time.Sleep(250 * time.Millisecond)
		call = e.filter(other, "ghost")
		e.Put(testkit.Claim("late"))
		e.Put(testkit.Node("ghost"))
		e.Put(testkit.Volume("pv-2").OnHost("ghost"))
		call.says(t, 0, "")
	})
}
