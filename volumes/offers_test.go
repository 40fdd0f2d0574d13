package volumes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prebind/prebind/internal/testkit"
)

const offerWait = 25 * time.Millisecond

// The pod after is judged when the bind call of the pod before has its
// volume, as kube-scheduler's own plugins are.
func TestFilterWaitsForTheBindCallBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-1")
		e := start(t, first, second, testkit.Claim("data-0"), testkit.Claim("data-1"), onNode7("pv-1"),
			testkit.Node("node-8"), testkit.Volume("pv-2").OnHost("node-8"))
		e.filter(first, node7, "node-8").says(t, 0, "", "")
		call := e.filter(second, node7, "node-8")
		time.Sleep(5 * time.Millisecond)
		reservation, err := e.p.Reserve(t.Context(), e.pod(first), node7)
		if err != nil {
			t.Fatal(err)
		}
		defer e.p.Unreserve(reservation)
		call.says(t, 5*time.Millisecond, wantNoVolume, "")

		// No bind call follows, as when another plugin refuses the pod.
		third := testkit.Pod("db-2").Uses("data-2")
		e.Put(third, testkit.Claim("data-2"))
		synctest.Wait()
		e.filter(third, node7, "node-8").says(t, offerWait, wantNoVolume, "")
		e.filter(third, node7, "node-8").says(t, 0, wantNoVolume, "") // the same pod once more
	})
}

// A bind call that gets no volume is no reason to wait either, and a pod that has no
// volume to choose is neither waited for nor kept waiting.
func TestFilterDoesNotWaitInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, other := testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-1")
		provisioned := testkit.Pod("new").Uses("new")
		e := start(t, first, other, provisioned, testkit.Claim("data-0"), testkit.Claim("data-1"), testkit.Claim("new").Class("fast"), onNode7("pv-1"))
		e.filter(first, node7).says(t, 0, "")
		e.filter(provisioned, node7).says(t, 0, "")
		e.filter(testkit.Pod("web"), node7).says(t, 0, "")
		if _, err := e.p.Reserve(t.Context(), e.pod(first), "ghost"); err == nil {
			t.Fatal("a volume on a node that does not exist")
		}
		e.filter(other, node7).says(t, 0, "")
	})
}

// With the bind calls elsewhere, at another replica, waiting ends.
func TestFilterStopsWaitingForCallsThatGoElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		e := start(t, onNode7("pv-1"))
		for _, name := range names {
			e.Put(testkit.Pod(name).Uses(name), testkit.Claim(name))
		}
		synctest.Wait()
		filter := func(name string, took time.Duration) {
			t.Helper()
			e.filter(testkit.Pod(name).Uses(name), node7).says(t, took, "")
		}
		filter("a", 0)
		for _, name := range names[1:4] {
			filter(name, offerWait)
		}
		filter("e", 0)
		reservation, err := e.p.Reserve(t.Context(), e.pod(testkit.Pod("e").Uses("e")), node7)
		if err != nil {
			t.Fatal(err)
		}
		e.p.Unreserve(reservation)
		filter("f", offerWait) // for "d", whose offer is as old as that to "e", taken in time
	})
}
