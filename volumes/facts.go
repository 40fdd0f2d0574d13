package volumes

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
)

// Facts are all that a plan is made from: plain values, read before. Nil
// objects do not exist.
type Facts struct {
	Pod     *v1.Pod
	Node    *v1.Node
	CSINode *storagev1.CSINode
	Claims  []ClaimFacts // in the pod's order, each claim once
}

// ClaimFacts are what is known of one claim of the pod.
type ClaimFacts struct {
	Name      string // of the claim, in the pod's namespace
	Ephemeral bool   // made for a generic ephemeral volume

	Claim *v1.PersistentVolumeClaim
	// Volume is the one that spec.volumeName names.
	Volume *v1.PersistentVolume
	// Class is the claim's effective class; unbound claims only.
	Class *storagev1.StorageClass
	// Candidates are volumes that the claim could be bound to; unbound claims
	// only. They are judged, and are few: those already pre-bound to the claim,
	// and the one that it is promised.
	Candidates []*v1.PersistentVolume
	// Free are volumes that were found to be free, not reserved, good for the
	// claim and reachable from the node: the smallest ones, the smallest first,
	// and more than the pod's other claims could take away.
	Free []*v1.PersistentVolume
	// Considered is how many volumes of the class were free, wherever they are.
	Considered int
	// PromisedVolume and PromisedNode are what another call holds for the claim,
	// which pods may share: a volume, or to be provisioned for a node.
	PromisedVolume, PromisedNode string
	// Driver is the class's CSI driver. Where it asks for capacity checks, Room is
	// what it reports that was found to suffice for the claim on the node.
	Driver *storagev1.CSIDriver
	Room   *storagev1.CSIStorageCapacity
}

// claimNames lists the pod's claims, each once, with the ephemeral ones
// marked.
func claimNames(pod *v1.Pod) []ClaimFacts {
	var claims []ClaimFacts
	seen := map[string]bool{}
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i]
		facts := ClaimFacts{}
		switch {
		case source.PersistentVolumeClaim != nil:
			facts.Name = source.PersistentVolumeClaim.ClaimName
		case source.Ephemeral != nil:
			facts.Name, facts.Ephemeral = ephemeral.VolumeClaimName(pod, source), true
		default:
			continue
		}
		// A claim that is used both ways must still belong to the pod.
		if seen[facts.Name] {
			for j := range claims {
				if claims[j].Name == facts.Name {
					claims[j].Ephemeral = claims[j].Ephemeral || facts.Ephemeral
				}
			}
			continue
		}
		seen[facts.Name] = true
		claims = append(claims, facts)
	}
	return claims
}

// HasClaims tells whether the pod uses any claim at all.
func HasClaims(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil || pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// ClaimNames returns the namespace/name of the pod's claims.
func ClaimNames(pod *v1.Pod) []string {
	claims := claimNames(pod)
	names := make([]string, 0, len(claims))
	for i := range claims {
		names = append(names, pod.Namespace+"/"+claims[i].Name)
	}
	return names
}

// Plan decides, from the caches alone, what each claim of the pod needs on the
// node. Nothing is held, written or asked of the API server, so by the time
// that it is read a plan may be out of date: it says where a pod could go (as
// a filter does) or why not, and Reserve decides again. Volumes reserved for
// other claims count as taken. The error is a fault: [MakePlan]'s, or
// NodeNotFound if the cache has no such node.
func (p *Prebinder) Plan(ctx context.Context, pod *v1.Pod, node string) (*Plan, error) {
	return p.plan(ctx, pod, node, false)
}

func (p *Prebinder) plan(ctx context.Context, pod *v1.Pod, nodeName string, live bool) (*Plan, error) {
	read := reader{caches: p.caches, client: p.client, live: live}
	node, err := read.node(ctx, nodeName)
	if err != nil {
		return nil, err
	}
	facts, err := p.gather(ctx, &read, pod)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, fault.New(fault.NodeNotFound, "node %s does not exist", nodeName)
	}
	return facts.planOn(node)
}

// completed tells whether the claim's own side says that it is bound.
func completed(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// owns tells whether the volume is claimed by exactly this claim.
func owns(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}
