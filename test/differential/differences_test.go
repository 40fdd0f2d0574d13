package differential

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// difference is a situation of one claim in which prebind means to answer
// otherwise than kube-scheduler. In any other situation the answers must be
// the same, and in this one each must be the one given here.
type difference struct {
	name string
	why  string // and where it was decided
	// applies looks at the state, and, where that is the shortest exact
	// description, at upstream's answer for a pod with this claim alone.
	applies func(*situation) bool
	// upstream lists the answers that kube-scheduler may give.
	upstream []what
	// prebind is the answer that we must give.
	prebind func(*situation) what
}

// situation is a claim that exists, is the pod's to use, not lost and not
// terminating, on one node.
type situation struct {
	state *state
	node  *v1.Node
	claim *v1.PersistentVolumeClaim
	// volume is the one that the claim names, if it exists.
	volume *v1.PersistentVolume
	// alone is kube-scheduler's answer for a pod with this claim and no other.
	alone answer
	// completed asks kube-scheduler for the same, if the PV controller had
	// finished the claim's side of the binding.
	completed func() answer
}

// claimDifferences are all the differences in what is said of one claim.
func claimDifferences() []difference {
	always := func(w what) func(*situation) what { return func(*situation) what { return w } }
	return []difference{
		{
			name:     "pre-bound elsewhere",
			why:      "the PV controller will bind the claim to that volume whatever is asked for, so a second one would be left over (ADR 2)",
			applies:  (*situation).preboundElsewhere,
			upstream: []what{static, dynamic, noVolume, noCapacity},
			prebind:  always(nodeConflict),
		},
		{
			name:     "half bound",
			why:      "the volume has claimed it, so the binding is under way and is waited for (ADR 3)",
			applies:  (*situation).halfBound,
			upstream: []what{unbound},
			prebind: func(s *situation) what {
				if s.completed().what == bound {
					return completing
				}
				return nodeConflict
			},
		},
		{
			name:     "capacity asked once",
			why:      "the claim is with the provisioner, whose new volume may be what has used the room up (ADR 4)",
			applies:  func(s *situation) bool { return s.selected() == s.node.Name && s.alone.what == noCapacity },
			upstream: []what{noCapacity},
			prebind:  always(dynamic),
		},
		{
			name: "provisioned for another node",
			why:  "the same refusal in exact words: it says which node, and that only the provisioner may give it back (design, errors are for people)",
			applies: func(s *situation) bool {
				return s.state.delayed(s.claim) && s.isSelected() && s.selected() != s.node.Name
			},
			upstream: []what{noVolume},
			prebind:  always(selectedElsewhere),
		},
		{
			name: "volume of another claim",
			why:  "fully bound means that the volume's claimRef has the claim's UID; kube-scheduler compares nothing but names (design, fully bound)",
			applies: func(s *situation) bool {
				return completed(s.claim) && s.volume != nil && !claimedBy(s.volume, s.claim)
			},
			upstream: []what{bound, nodeConflict, untranslatable},
			prebind:  always(volumeMismatch),
		},
		{
			name:     "volume that cannot be translated",
			why:      "kube-scheduler fails with an error, which ends the pod's scheduling on all nodes; to us the node does not fit",
			applies:  func(s *situation) bool { return s.alone.what == untranslatable },
			upstream: []what{untranslatable},
			prebind:  always(nodeConflict),
		},
	}
}

// podDifference is one that only shows in a pod as a whole.
type podDifference struct{ name, why string }

func podDifferences() []podDifference {
	return []podDifference{
		{claimTwice, "one volume per claim: kube-scheduler looks for a second volume, or refuses, when a pod names a claim in two of its volumes"},
		{fewModes, "kube-scheduler chooses a volume that is pre-bound to the claim without a look at its access modes; the PV controller looks, and never binds it"},
		{allReasons, "kube-scheduler stops at the first claim that stands in the way, we name them all (design, plan)"},
	}
}

// differenceNames are the names of all.
func differenceNames() []string {
	var names []string
	for _, d := range claimDifferences() {
		names = append(names, d.name)
	}
	for _, d := range podDifferences() {
		names = append(names, d.name)
	}
	return names
}

const (
	claimTwice = "claim named twice"
	allReasons = "every reason told"
	fewModes   = "pre-bound with too few access modes"
)

// usable tells whether a situation can be made of the claim: whatever else is
// true of one that is not usable, both say the same of it.
func usable(pod *v1.Pod, m mention, claim *v1.PersistentVolumeClaim) bool {
	return claim != nil && claim.Status.Phase != v1.ClaimLost && claim.DeletionTimestamp == nil &&
		(!m.ephemeral || ephemeral.VolumeIsForPod(pod, claim) == nil)
}

func (s *situation) halfBound() bool {
	return s.claim.Spec.VolumeName != "" && !completed(s.claim) && claimedBy(s.volume, s.claim)
}

func (s *situation) isSelected() bool {
	_, ok := s.claim.Annotations[volume.AnnSelectedNode]
	return ok
}

func (s *situation) selected() string { return s.claim.Annotations[volume.AnnSelectedNode] }

// preboundElsewhere tells whether a volume of the claim's class is pre-bound
// to it that would be chosen if only the node could reach it.
func (s *situation) preboundElsewhere() bool {
	if !s.state.delayed(s.claim) || (s.isSelected() && s.selected() != s.node.Name) {
		return false
	}
	for _, pv := range s.state.volumes {
		if !volume.IsVolumeBoundToClaim(pv, s.claim) || volume.GetPersistentVolumeClass(pv) != volume.GetPersistentVolumeClaimClass(s.claim) {
			continue
		}
		if !volume.CheckAccessModes(s.claim, pv) {
			continue
		}
		everywhere := pv.DeepCopy()
		everywhere.Spec.NodeAffinity = nil
		good, err := volume.FindMatchingVolume(s.claim, []*v1.PersistentVolume{everywhere}, s.node, nil, true, true)
		if err == nil && good != nil && volume.CheckNodeAffinity(pv, s.node.Labels) != nil {
			return true
		}
	}
	return false
}
