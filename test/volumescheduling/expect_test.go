package volumescheduling_test

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
)

const selectedNode = volume.AnnSelectedNode

// untouched checks that nobody has begun to bind the claims.
func (s *scene) untouched(names ...string) {
	s.t.Helper()
	for _, name := range names {
		claim := s.getClaim(name)
		node, selected := claim.Annotations[selectedNode]
		if selected || claim.Spec.VolumeName != "" || claim.Status.Phase != v1.ClaimPending {
			s.t.Errorf("claim %s was touched: phase %s, volume %q, selected node %q", name, claim.Status.Phase, claim.Spec.VolumeName, node)
		}
	}
}

// provisioned waits until the claim is bound and checks that its volume was
// made for the node.
func (s *scene) provisioned(name, node string) {
	s.t.Helper()
	s.provisionedAll([]string{name}, node)
}

func (s *scene) provisionedAll(names []string, node string) {
	s.t.Helper()
	s.claimsAre(v1.ClaimBound, names...)
	for _, name := range names {
		if got := s.getClaim(name).Annotations[selectedNode]; got != node {
			s.t.Errorf("the volume of claim %s was made for node %q, want %s", name, got, node)
		}
	}
}

// notProvisioned waits until the claims are bound and checks that nobody was
// asked to make a volume for a node.
func (s *scene) notProvisioned(names ...string) {
	s.t.Helper()
	s.claimsAre(v1.ClaimBound, names...)
	for _, name := range names {
		if node, ok := s.getClaim(name).Annotations[selectedNode]; ok {
			s.t.Errorf("claim %s has selected node %s, want none", name, node)
		}
	}
}

// taken lists the names of the volumes that are not to be free.
func taken(volumes []volumeSpec, free []string) []string {
	var names []string
	for _, v := range volumes {
		if !slices.Contains(free, v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// cordon keeps new pods off a node.
func (s *scene) cordon(node string) {
	s.t.Helper()
	_, err := s.client.CoreV1().Nodes().Patch(s.ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	s.must(err)
}

// prefers makes the pod prefer a node over all others that suit it.
func prefers(pod *v1.Pod, hostname string) *v1.Pod {
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 100, Preference: build.In(v1.LabelHostname, hostname)}},
	}}
	return pod
}

// requires lets the pod run on one node alone.
func requires(pod *v1.Pod, hostname string) *v1.Pod {
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{build.In(v1.LabelHostname, hostname)}},
	}}
	return pod
}
