package chaos

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
)

const (
	ns    = "chaos"
	dbUID = types.UID("uid-db")
)

// goodState is what a run should leave behind: a bound pod with one claim and
// an ephemeral one, a pod that waits for ever, and a free volume.
func goodState() *state {
	node := build.Node("node-1").Zone("a").Obj()
	pod := build.Pod(ns, "db").Claim("data").Ephemeral("scratch", anyDisks, size).NodeName("node-1").Obj()
	pod.UID = dbUID
	never := build.Pod(ns, "never").Claim("huge").Label(impossibleLabel, "true").Obj()
	scratch := bound("db-scratch", "uid-scratch", "disk-2")
	scratch.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "db", UID: dbUID, Controller: new(true)}}
	huge := build.Claim(ns, "huge").Class(localDisks).Obj()
	huge.UID = "uid-huge"
	return &state{
		nodes:  []corev1.Node{*node},
		pods:   []corev1.Pod{*pod, *never},
		claims: []corev1.PersistentVolumeClaim{*bound("data", "uid-data", "disk-1"), *scratch, *huge},
		volumes: []corev1.PersistentVolume{
			*build.Volume("disk-1").OnNode("node-1").ClaimRef(ns, "data", "uid-data").Obj(),
			*build.Volume("disk-2").InZone("a").ClaimRef(ns, "db-scratch", "uid-scratch").Obj(),
			*build.Volume("disk-3").OnNode("node-1").Obj(),
		},
	}
}

func bound(name string, uid types.UID, pv string) *corev1.PersistentVolumeClaim {
	claim := build.Claim(ns, name).Class(anyDisks).Volume(pv).Annotation(volume.AnnBindCompleted, "yes").Obj()
	claim.UID = uid
	claim.Status.Phase = corev1.ClaimBound
	return claim
}

const (
	allBound       = "every pod that can be bound is bound"
	noneImpossible = "no pod is bound that cannot be"
	fullyBound     = "bound pods have fully bound claims, reachable from their nodes"
	oneClaim       = "no volume has two claims"
	oneVolume      = "no claim has two volumes"
	noLeftovers    = "no volume is held for a claim that is gone"
	noneForNever   = "no volume is held for a pod that cannot be bound"
)

func TestGoodStatePassesAllChecks(t *testing.T) {
	for _, check := range goodState().checks([]string{"db"}) {
		if len(check.Failures) > 0 {
			t.Errorf("check %q fails on a good state: %v", check.Name, check.Failures)
		}
	}
}

func TestEachCheckNamesWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		spoil func(s *state)
		want  map[string][]string // words of the failure, by check
	}{
		"a pod is missing": {
			spoil: func(s *state) { s.pods = s.pods[1:] },
			want:  map[string][]string{allBound: {"pod db does not exist"}},
		},
		"a pod waits": {
			spoil: func(s *state) {
				s.pods[0].Spec.NodeName = ""
				s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "Unschedulable", Message: "no disks"}}
				s.claims[0].Annotations[volume.AnnSelectedNode] = "node-9"
			},
			want: map[string][]string{allBound: {"pod db is not bound", "Unschedulable: no disks", `data (Bound, volume "disk-1", selected node "node-9")`}},
		},
		"an impossible pod is bound": {
			spoil: func(s *state) { s.pods[1].Spec.NodeName = "node-1" },
			want: map[string][]string{
				noneImpossible: {"pod never is on node node-1"},
				fullyBound:     {"pod never", "claim huge has no volume"},
			},
		},
		"a bound pod's claim is gone": {
			spoil: func(s *state) { s.claims = s.claims[1:] },
			want: map[string][]string{
				fullyBound:  {"pod db", "claim data does not exist"},
				noLeftovers: {"volume disk-1", "claim data (uid uid-data), which is gone"},
			},
		},
		"a bound pod's claim has no volume": {
			spoil: func(s *state) { s.claims[0].Spec.VolumeName = "" },
			want:  map[string][]string{fullyBound: {"pod db", "claim data has no volume"}},
		},
		"a bound pod's claim is not completed": {
			spoil: func(s *state) { delete(s.claims[0].Annotations, volume.AnnBindCompleted) },
			want:  map[string][]string{fullyBound: {"pod db", "claim data is not completed"}},
		},
		"a bound pod's claim is lost": {
			spoil: func(s *state) { s.claims[0].Status.Phase = corev1.ClaimLost },
			want:  map[string][]string{fullyBound: {"pod db", "claim data is lost"}},
		},
		"a bound pod's volume is gone": {
			spoil: func(s *state) { s.volumes = s.volumes[1:] },
			want:  map[string][]string{fullyBound: {"claim data names volume disk-1, which does not exist"}},
		},
		"a bound pod's volume belongs to the claim's predecessor": {
			spoil: func(s *state) { s.volumes[0].Spec.ClaimRef.UID = "uid-old" },
			want: map[string][]string{
				fullyBound:  {"claim data (uid uid-data) names volume disk-1, which is held for claim data (uid uid-old)"},
				oneClaim:    {"volume disk-1 has claim data (uid uid-data) and claim data (uid uid-old)"},
				noLeftovers: {"volume disk-1", "uid-old"},
			},
		},
		"a bound pod's volume is nobody's": {
			spoil: func(s *state) { s.volumes[0].Spec.ClaimRef = nil },
			want:  map[string][]string{fullyBound: {"claim data (uid uid-data) names volume disk-1, which is held for nobody"}},
		},
		"a bound pod's volume is out of reach": {
			spoil: func(s *state) { s.nodes[0].Labels[corev1.LabelHostname] = "node-2" },
			want:  map[string][]string{fullyBound: {"claim data has volume disk-1, which the node does not reach"}},
		},
		"a bound pod's node is gone": {
			spoil: func(s *state) { s.nodes = nil },
			want:  map[string][]string{fullyBound: {"pod db is on node node-1", "the node does not exist"}},
		},
		"an ephemeral claim belongs to the pod's predecessor": {
			spoil: func(s *state) { s.claims[1].OwnerReferences[0].UID = "uid-old" },
			want:  map[string][]string{fullyBound: {"claim db-scratch belongs to another pod"}},
		},
		"two claims name one volume": {
			spoil: func(s *state) { s.claims[1].Spec.VolumeName = "disk-1" },
			want: map[string][]string{
				fullyBound: {"claim db-scratch (uid uid-scratch) names volume disk-1"},
				oneClaim:   {"volume disk-1 has claim data (uid uid-data) and claim db-scratch (uid uid-scratch)"},
			},
		},
		"a claim holds two volumes": {
			spoil: func(s *state) { s.volumes[2].Spec.ClaimRef = s.volumes[0].Spec.ClaimRef.DeepCopy() },
			want:  map[string][]string{oneVolume: {"claim data holds volume disk-1 and volume disk-3"}},
		},
		"a volume is held for a claim that was deleted": {
			spoil: func(s *state) {
				s.volumes[2].Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: "data", UID: "uid-old"}
				s.volumes[2].Status.Phase = corev1.VolumeReleased
			},
			want: map[string][]string{noLeftovers: {"volume disk-3 (Released) is held for claim data (uid uid-old), which is gone"}},
		},
		"a volume is held for a pod that cannot be bound": {
			spoil: func(s *state) {
				s.volumes[2].Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: "huge", UID: "uid-huge"}
			},
			want: map[string][]string{noneForNever: {"volume disk-3 is held for claim huge of pod never"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := goodState()
			test.spoil(s)
			for _, check := range s.checks([]string{"db"}) {
				words, wanted := test.want[check.Name]
				got := strings.Join(check.Failures, "\n")
				if !wanted && got != "" {
					t.Errorf("check %q fails too: %s", check.Name, got)
				}
				if wanted && (got == "" || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(got, w) })) {
					t.Errorf("check %q says %q, want %q in it", check.Name, got, words)
				}
			}
		})
	}
}
