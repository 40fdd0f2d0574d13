package volumes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/testkit"
	"github.com/prebind/prebind/volumes"
)

// schedule is all that is random in a run: what there is, what happens, and
// what goes wrong with requests.
type schedule struct {
	Claims  []drawnClaim
	Volumes []drawnVolume
	Pods    [][]int // the claims of each; -1 is an ephemeral one
	Steps   []step
	Faults  []int
	// Direct has bit n set if replica n completes claims itself.
	Direct int
}

type drawnClaim struct{ Class, Size, State int }

type drawnVolume struct{ Class, Size, Place, State, Claim int }

var (
	classes = []string{"local", "mixed", "fast"}
	sizes   = []string{"10Gi", "5Gi", "20Gi"}
)

// Steps, those that make calls progress more often than the others.
var stepNames = slices.Concat(
	slices.Repeat([]string{"call"}, 6),
	slices.Repeat([]string{"sync volume", "provision", "time", "advance"}, 3),
	[]string{
		"cancel", "sync claim", "restart controller", "hold", "hold", "release", "restart", "label claim", "label volume", "take volume", "reset volume",
		"delete volume", "renew claim", "renew unseen", "renew pod", "relabel node", "delete node",
	},
)

func drawSchedule(t *rapid.T) *schedule {
	small := rapid.IntRange(0, 5)
	s := &schedule{
		Claims: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawnClaim {
			return drawnClaim{small.Draw(t, "class"), small.Draw(t, "size"), rapid.IntRange(0, 9).Draw(t, "state")}
		}), 1, 5).Draw(t, "claims"),
		Volumes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawnVolume {
			return drawnVolume{small.Draw(t, "class"), small.Draw(t, "size"), small.Draw(t, "place"), rapid.IntRange(0, 9).Draw(t, "state"), small.Draw(t, "claim")}
		}), 0, 6).Draw(t, "volumes"),
		Pods: rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(-1, 4), 1, 3), 1, 4).Draw(t, "pods"),
		Steps: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.SampledFrom(stepNames).Draw(t, "do"), small.Draw(t, "a"), small.Draw(t, "b"), small.Draw(t, "c"), rapid.Bool().Draw(t, "settle")}
		}), 1, 40).Draw(t, "steps"),
		Direct: rapid.IntRange(0, 3).Draw(t, "direct"),
	}
	if rapid.Bool().Draw(t, "faulty") {
		s.Faults = rapid.SliceOfN(rapid.IntRange(-2*len(trouble), len(trouble)-1), 1, 24).Draw(t, "faults")
	}
	return s
}

// fault returns the nth fault; most are none.
func (s *schedule) fault(n int) testkit.Fault {
	if len(s.Faults) == 0 {
		return testkit.Fault{}
	}
	return trouble[max(0, s.Faults[n%len(s.Faults)])]
}

// objects returns what exists at first.
func (s *schedule) objects() []runtime.Object {
	var objects []runtime.Object
	claims := make([]testkit.ClaimBuilder, 0, len(s.Claims))
	for i, c := range s.Claims {
		claim := testkit.Claim(fmt.Sprint("c-", i)).Class(classes[c.Class%len(classes)]).Size(sizes[c.Size%len(sizes)])
		if c.State == 9 && c.Class%len(classes) != 0 {
			claim.Selected(nodeNames[i%len(nodeNames)])
		}
		claims = append(claims, claim)
	}
	for i, v := range s.Volumes {
		pv := testkit.Volume(fmt.Sprint("pv-", i)).Class(classes[v.Class%2]).Size(sizes[v.Size%len(sizes)])
		switch place := v.Place; {
		case place < len(nodeNames):
			pv.OnHost(nodeNames[place])
		case place < len(nodeNames)+len(zones):
			pv.Within(v1.LabelTopologyZone, zones[place-len(nodeNames)])
		}
		claim := claims[v.Claim%len(claims)]
		if free := claim.Spec.VolumeName == ""; free && v.State >= 6 {
			pv.Class(*claim.Spec.StorageClassName).Size("20Gi")
			switch v.State {
			case 6:
				pv.PreBound(claim.Name)
			case 7:
				pv.ClaimedBy(claim)
				claim.Names(pv.Name)
			case 8:
				pv.ClaimedBy(claim)
				claim.Bound(pv.Name)
			case 9: // written by a replica that is no more
				pv.ClaimedBy(claim).Annotate(volume.AnnBoundByController, "yes").Phase(v1.VolumeAvailable)
			}
		}
		objects = append(objects, pv)
	}
	for i, uses := range s.Pods {
		pod := testkit.Pod(fmt.Sprint("p-", i))
		for _, c := range uses {
			if c >= 0 {
				pod.Uses(claims[c%len(claims)].Name)
				continue
			}
			if len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].Ephemeral == nil {
				pod.UsesEphemeral("tmp")
				objects = append(objects, testkit.Claim(pod.Name+"-tmp").Class("mixed").OwnedBy(pod))
			}
		}
		objects = append(objects, pod)
	}
	for _, claim := range claims {
		objects = append(objects, claim)
	}
	return objects
}

// TestRandomSchedules plays random schedules of calls, faults, lags, restarts
// and foreign writers. Whatever happens, the rules of audit hold at every
// write, and when all is healed every pod that can be bound is bound.
// PREBIND_LONG=1 plays many; -rapid.seed plays one again.
func TestRandomSchedules(t *testing.T) {
	volumes.CheckTimes(t, "300", "20000")
	total, completed, ends := 0, 0, map[fault.Code]int{}
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawSchedule(rt)
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plan)
			problems = w.run()
			total += w.audit.writes
			completed += len(w.audit.completed)
			for _, c := range w.calls {
				ends[fault.CodeOf(c.err)]++
			}
		})
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems, "\n"))
		}
	})
	t.Logf("%d writes, %d claims completed; calls by how they ended: %v", total, completed, ends)
}
