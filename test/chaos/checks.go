package chaos

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Check is one thing that must be true in the end.
type Check struct {
	Name string
	// Failures name what is wrong, an object each. None: it is true.
	Failures []string
}

// checks judges what the API shows. possible are the names of the pods that
// can be bound.
func (s *state) checks(possible []string) []Check {
	return []Check{
		{"every pod that can be bound is bound", s.unbound(possible)},
		{"no pod is bound that cannot be", s.boundImpossible()},
		{"bound pods have fully bound claims, reachable from their nodes", s.halfBound()},
		{"no volume has two claims", s.volumesWithTwoClaims()},
		{"no claim has two volumes", s.claimsWithTwoVolumes()},
		{"no volume is held for a claim that is gone", s.volumesOfNobody()},
		{"no volume is held for a pod that cannot be bound", s.volumesOfImpossible()},
	}
}

func (s *state) unbound(possible []string) []string {
	var failures []string
	for _, name := range possible {
		switch pod := s.pod(name); {
		case pod == nil:
			failures = append(failures, fmt.Sprintf("pod %s does not exist", name))
		case pod.Spec.NodeName == "":
			failures = append(failures, fmt.Sprintf("pod %s is not bound: %s; its claims: %s", name, scheduled(pod), s.describeClaims(pod)))
		}
	}
	return failures
}

// scheduled returns what the scheduler says about a pod.
func scheduled(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Reason + ": " + condition.Message
		}
	}
	return "the scheduler has not tried it"
}

func (s *state) describeClaims(pod *corev1.Pod) string {
	var texts []string
	for _, name := range claimNames(pod) {
		claim := s.claim(name)
		if claim == nil {
			texts = append(texts, name+" does not exist")
			continue
		}
		text := fmt.Sprintf("%s (%s, volume %q, selected node %q)", name, claim.Status.Phase, claim.Spec.VolumeName, claim.Annotations[volume.AnnSelectedNode])
		if claim.DeletionTimestamp != nil {
			text += " is being deleted"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func (s *state) boundImpossible() []string {
	var failures []string
	for i := range s.pods {
		if pod := &s.pods[i]; impossible(pod) && pod.Spec.NodeName != "" {
			failures = append(failures, fmt.Sprintf("pod %s is on node %s; its claims: %s", pod.Name, pod.Spec.NodeName, s.describeClaims(pod)))
		}
	}
	return failures
}

func (s *state) halfBound() []string {
	var failures []string
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		for _, name := range claimNames(pod) {
			if problem := s.notUsable(pod, name); problem != "" {
				failures = append(failures, fmt.Sprintf("pod %s is on node %s, but claim %s %s", pod.Name, pod.Spec.NodeName, name, problem))
			}
		}
	}
	return failures
}

// notUsable tells why a bound pod cannot use a claim, "" if it can.
func (s *state) notUsable(pod *corev1.Pod, name string) string {
	claim := s.claim(name)
	switch {
	case claim == nil:
		return "does not exist"
	case claim.Spec.VolumeName == "":
		return "has no volume"
	case claim.Annotations[volume.AnnBindCompleted] == "":
		return "is not completed"
	case claim.Status.Phase == corev1.ClaimLost:
		return "is lost"
	case isEphemeral(pod, name) && !metav1.IsControlledBy(claim, pod):
		return "belongs to another pod"
	}
	pv, node := s.volume(claim.Spec.VolumeName), s.node(pod.Spec.NodeName)
	switch {
	case pv == nil:
		return fmt.Sprintf("names volume %s, which does not exist", claim.Spec.VolumeName)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return fmt.Sprintf("(uid %s) names volume %s, which is held for %s", claim.UID, pv.Name, holder(pv))
	case node == nil:
		return "cannot be there: the node does not exist"
	}
	if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
		return fmt.Sprintf("has volume %s, which the node does not reach: %v", pv.Name, err)
	}
	return ""
}

func isEphemeral(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

func holder(pv *corev1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return "nobody"
	}
	return fmt.Sprintf("claim %s (uid %s)", ref.Name, ref.UID)
}

func (s *state) volumesWithTwoClaims() []string {
	claims := map[string][]string{}
	for i := range s.claims {
		claim := &s.claims[i]
		if name := claim.Spec.VolumeName; name != "" {
			claims[name] = append(claims[name], fmt.Sprintf("claim %s (uid %s)", claim.Name, claim.UID))
		}
	}
	for i := range s.volumes {
		pv := &s.volumes[i]
		// The claim that names it and the one for which it is held must be one.
		if pv.Spec.ClaimRef != nil && claims[pv.Name] != nil && !slices.Contains(claims[pv.Name], holder(pv)) {
			claims[pv.Name] = append(claims[pv.Name], holder(pv))
		}
	}
	return several("volume", "has", claims)
}

func (s *state) claimsWithTwoVolumes() []string {
	volumes := map[string][]string{}
	known := s.byUID()
	for i := range s.volumes {
		pv := &s.volumes[i]
		if pv.Spec.ClaimRef == nil || known[pv.Spec.ClaimRef.UID] == nil {
			continue
		}
		claim := known[pv.Spec.ClaimRef.UID]
		volumes[claim.Name] = append(volumes[claim.Name], "volume "+pv.Name)
	}
	return several("claim", "holds", volumes)
}

// several describes the entries that have more than one value.
func several(kind, verb string, found map[string][]string) []string {
	var failures []string
	for name, values := range found {
		if len(values) > 1 {
			slices.Sort(values)
			failures = append(failures, fmt.Sprintf("%s %s %s %s", kind, name, verb, strings.Join(values, " and ")))
		}
	}
	slices.Sort(failures)
	return failures
}

func (s *state) volumesOfNobody() []string {
	var failures []string
	known := s.byUID()
	for i := range s.volumes {
		pv := &s.volumes[i]
		if pv.Spec.ClaimRef != nil && known[pv.Spec.ClaimRef.UID] == nil {
			failures = append(failures, fmt.Sprintf("volume %s (%s) is held for %s, which is gone", pv.Name, pv.Status.Phase, holder(pv)))
		}
	}
	return failures
}

func (s *state) volumesOfImpossible() []string {
	held := map[types.UID]string{}
	for i := range s.volumes {
		if ref := s.volumes[i].Spec.ClaimRef; ref != nil {
			held[ref.UID] = s.volumes[i].Name
		}
	}
	var failures []string
	for i := range s.pods {
		if !impossible(&s.pods[i]) {
			continue
		}
		for _, name := range claimNames(&s.pods[i]) {
			if claim := s.claim(name); claim != nil && held[claim.UID] != "" {
				failures = append(failures, fmt.Sprintf("volume %s is held for claim %s of pod %s", held[claim.UID], name, s.pods[i].Name))
			}
		}
	}
	return failures
}
