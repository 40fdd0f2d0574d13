package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/provisioner"
)

// failShare is the part of the attempts to provision that fail at random.
const failShare = 0.25

// flaky makes attempts to provision slow, and some of them fail, in each of
// the ways in which a provisioner may.
func flaky(seed uint64) func(context.Context, provisioner.Attempt) error {
	return func(ctx context.Context, a provisioner.Attempt) error {
		dice := dice(seed, fmt.Sprintf("provisioner %s %d", a.Claim.Name, a.Number))
		if !pause(ctx, between(dice, 100*time.Millisecond, 2*time.Second)) {
			return &provisioner.FailureError{State: controller.ProvisioningInBackground, Message: "the provisioner was stopped"}
		}
		if dice.Float64() >= failShare {
			return nil
		}
		states := []controller.ProvisioningState{
			controller.ProvisioningReschedule, controller.ProvisioningFinished, controller.ProvisioningInBackground,
		}
		state := states[dice.IntN(len(states))]
		return &provisioner.FailureError{State: state, Message: fmt.Sprintf("attempt %d is one of those that fail (%s)", a.Number, state)}
	}
}

// everywhere makes the volumes of flakyNet usable on the nodes of all zones.
func everywhere(zones []string) func(provisioner.Attempt, *provisioner.Volume) {
	return func(a provisioner.Attempt, volume *provisioner.Volume) {
		if a.Class.Name == flakyNet {
			term := build.In(corev1.LabelTopologyZone, zones...)
			volume.Spec.NodeAffinity.Required.NodeSelectorTerms = []corev1.NodeSelectorTerm{term}
		}
	}
}
