package volumes

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
)

// ClaimState is how far a claim has got, in one word.
type ClaimState string

const (
	// StateBound is fully bound, as a wait understands it.
	StateBound ClaimState = "Bound"
	// StateBinding has a volume on one side, or asks for one by name, and the PV
	// controller is to do the rest.
	StateBinding ClaimState = "Binding"
	// StatePending has no volume, and nobody was asked for one.
	StatePending ClaimState = "Pending"
	// StateProvisioning has no volume, and its provisioner was asked for one.
	StateProvisioning ClaimState = "Provisioning"
	// StateLost had a volume that is gone, and says so.
	StateLost ClaimState = "Lost"
	// StateMissing does not exist.
	StateMissing ClaimState = "Missing"
	// StateTerminating is being deleted.
	StateTerminating ClaimState = "Terminating"
	// StateNotOwned is in the way of the pod's generic ephemeral volume.
	StateNotOwned ClaimState = "NotOwned"
	// StateVolumeMissing is bound to a volume that does not exist.
	StateVolumeMissing ClaimState = "VolumeMissing"
	// StateVolumeMismatch is bound to a volume that belongs to another claim.
	StateVolumeMismatch ClaimState = "VolumeMismatch"
)

// state tells how far the claim has got, and what it waits for.
func (c *ClaimFacts) state(pod *v1.Pod) (state ClaimState, waitsFor string) {
	problem := c.unusable(pod)
	if problem == nil {
		return c.stateOfUsable(pod)
	}
	switch problem.Code {
	case fault.ClaimNotFound:
		if c.Ephemeral {
			return StateMissing, "the ephemeral volume controller to create it"
		}
		return StateMissing, "somebody to create it"
	case fault.ClaimLost:
		return StateLost, ""
	case fault.ClaimTerminating:
		return StateTerminating, "every pod that uses it to end"
	case fault.ClaimNotOwned:
		return StateNotOwned, "somebody to delete it"
	case fault.VolumeNotFound:
		return StateVolumeMissing, fmt.Sprintf("volume %s to come back", c.Claim.Spec.VolumeName)
	case fault.VolumeMismatch:
		return StateVolumeMismatch, ""
	}
	return c.stateOfUnbound()
}

func (c *ClaimFacts) stateOfUsable(pod *v1.Pod) (state ClaimState, waitsFor string) {
	switch {
	case completed(c.Claim):
		return StateBound, ""
	case c.Claim.Spec.VolumeName != "":
		return StateBinding, finishing(c.Claim.Spec.VolumeName)
	}
	for _, pv := range c.Candidates {
		if owns(c.Claim, pv) {
			return StateBinding, finishing(pv.Name)
		}
	}
	switch selected, asked := c.Claim.Annotations[volume.AnnSelectedNode]; {
	case asked:
		return StateProvisioning, fmt.Sprintf("provisioner %s to make a volume for node %s", c.Class.Provisioner, selected)
	case c.PromisedVolume != "":
		return StateBinding, fmt.Sprintf("a bind call that is about to bind it to volume %s", c.PromisedVolume)
	case c.PromisedNode != "":
		return StateProvisioning, fmt.Sprintf("a bind call that is about to ask for a volume for node %s", c.PromisedNode)
	}
	if pod.Spec.NodeName != "" { // too late for this one
		return StatePending, "a pod that uses it to be scheduled"
	}
	return StatePending, fmt.Sprintf("pod %s to be scheduled", pod.Name)
}

// stateOfUnbound is for a claim that is not prebind's to bind.
func (c *ClaimFacts) stateOfUnbound() (state ClaimState, waitsFor string) {
	className := volume.GetPersistentVolumeClaimClass(c.Claim)
	switch {
	case c.Claim.Spec.VolumeName != "" && c.Volume == nil:
		return StateBinding, fmt.Sprintf("volume %s, which it asks for, to appear", c.Claim.Spec.VolumeName)
	case c.Claim.Spec.VolumeName != "":
		return StateBinding, fmt.Sprintf("the PV controller to bind it to volume %s, which it asks for", c.Claim.Spec.VolumeName)
	case className == "":
		return StatePending, "the PV controller to bind it to a volume without a class"
	case c.Class == nil:
		return StatePending, fmt.Sprintf("storageclass %s to be created", className)
	case !c.provisioned():
		return StatePending, "the PV controller to bind it to a volume of its class"
	case c.Claim.Annotations[volume.AnnStorageProvisioner] != "" || c.Claim.Annotations[volume.AnnBetaStorageProvisioner] != "":
		return StateProvisioning, fmt.Sprintf("provisioner %s to make a volume", c.Class.Provisioner)
	}
	return StatePending, "the PV controller to bind it, or to ask its provisioner"
}

func finishing(pv string) string {
	return fmt.Sprintf("the PV controller to finish the binding to volume %s", pv)
}

// choosing tells whether the claim has no volume yet and may be given one that
// exists, by a bind call or by the PV controller.
func (c *ClaimFacts) choosing(pod *v1.Pod) bool {
	if c.Claim == nil || c.Claim.Spec.VolumeName != "" || c.asked() || c.PromisedNode != "" {
		return false
	}
	problem := c.unusable(pod)
	return problem == nil || problem.Code == fault.ClaimUnbound
}
