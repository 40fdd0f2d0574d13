package volumes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prebind/prebind/internal/testkit"
)

// TestPlanDecidesFromTheCachesAndHoldsNothing asks for plans beside a pod that
// has a volume reserved.
func TestPlanDecidesFromTheCachesAndHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		holder, pod := testkit.Pod("db-0").Uses("data-0"), testkit.Pod("db-1").Uses("data-1", "logs-1", "old-1")
		bound := testkit.Claim("old-1").Bound("pv-old")
		e := start(t, holder, pod, testkit.Claim("data-0"), testkit.Claim("data-1"), testkit.Claim("logs-1").Class("fast"), bound,
			onNode7("pv-1"), onNode7("pv-2").Size("20Gi"), testkit.Volume("pv-old").ClaimedBy(bound))
		reservation, err := e.p.Reserve(t.Context(), holder.Pod, node7)
		wantText(t, err, "")
		for range 2 { // the second is no different, as the first holds nothing
			plan, err := e.p.Plan(t.Context(), pod.Pod, node7)
			wantText(t, err, "")
			if diff := cmp.Diff([]string{"bound old-1 -> pv-old", "static data-1 -> pv-2", "dynamic logs-1"}, show(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		}
		_, err = e.p.Plan(t.Context(), pod.Pod, "node-8")
		wantText(t, err, "NodeNotFound: node node-8 does not exist")
		_, err = e.p.Plan(t.Context(), testkit.Pod("db-2").Uses("data-2").Pod, node7)
		wantText(t, err, `ClaimNotFound: claim shop/data-2: persistentvolumeclaim "data-2" not found`)
		e.p.Unreserve(reservation)
		e.wrote()
		if reads := e.Reads(); len(reads) > 0 {
			t.Errorf("the API server was asked: %v", reads)
		}
	})
}
