package volumescheduling_test

import (
	"testing"

	"github.com/prebind/prebind/test/controlplane"
)

// registration is one way to register prebind with the scheduler.
type registration struct {
	mode controlplane.Mode
	// binder is the field manager of the only program that may choose volumes for
	// claims that wait for a pod.
	binder string
	// cheap leaves the heavy scenarios out.
	cheap bool
}

// registrations lists the modes in which every scenario must hold. Mode stock
// is there to show that the scenarios themselves are right: volumes are bound by
// the scheduler's own plugin.
func registrations() []registration {
	return []registration{
		{mode: controlplane.ModeBind, binder: "prebind"},
		{mode: controlplane.ModeFull, binder: "prebind"},
		{mode: controlplane.ModeStock, binder: "kube-scheduler", cheap: true},
	}
}

// scenario is one of upstream's tests, or one of ours beside them.
type scenario struct {
	name  string
	run   func(*testing.T, registration)
	heavy bool
}

func scenarios() []scenario {
	return []scenario{
		{name: "slow provisioning", run: testStressSlow, heavy: true}, // first: it waits longest
		{name: "fast provisioning", run: testStressFast, heavy: true},
		{name: "stress", run: testStress, heavy: true},
		{name: "stress under change", run: testStressUnderChange, heavy: true},
		{name: "equal volumes", run: testEqualVolumes, heavy: true},
		{name: "binding", run: testBinding},
		{name: "rescheduling", run: testRescheduling},
		{name: "pod anti-affinity", run: testPodAntiAffinity},
		{name: "pod affinity", run: testPodAffinity},
		{name: "node conflict", run: testNodeConflict},
		{name: "provisioning", run: testProvisioning},
		{name: "capacity", run: testCapacity},
		{name: "provisioning fails on a node", run: testReprovisioning},
		{name: "capacity scoring", run: testScoring},
		{name: "capacity scoring of drivers", run: testScoringOfDrivers},
	}
}

// TestScenarios runs every scenario with a real kube-scheduler, one after the
// other per mode, and checks after each mode that prebind is at rest.
func TestScenarios(t *testing.T) {
	for _, r := range registrations() {
		t.Run("mode "+string(r.mode), func(t *testing.T) {
			opts := controlplane.SchedulerOptions{Mode: r.mode, URL: shared.prebind.URL()}
			if err := shared.cp.StartScheduler(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			t.Run("scenario", func(t *testing.T) { // ends when all of them have
				for _, s := range scenarios() {
					if s.heavy && r.cheap {
						continue
					}
					t.Run(s.name, func(t *testing.T) {
						t.Parallel()
						s.run(t, r)
					})
				}
			})
			if err := shared.checkAtRest(t.Context()); err != nil {
				t.Error(err)
			}
			if err := shared.cp.StopScheduler(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
