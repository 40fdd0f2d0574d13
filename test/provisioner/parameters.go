package provisioner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Parameters of a StorageClass that this provisioner understands. They may be
// combined: an attempt first waits (Hold, Delay), then fails if it is to, then
// makes the volume.
const (
	// Failures is how many of the first attempts for a claim fail.
	Failures = "failures"
	// FailNodes names nodes, separated by commas, on which every attempt fails.
	FailNodes = "failNodes"
	// FailureState says what follows a failure: one of the states below.
	// Default: Reschedule.
	FailureState = "failureState"
	// FailureMessage is the error. Default: "simulated failure".
	FailureMessage = "failureMessage"
	// Delay is how long an attempt takes, as in "2s".
	Delay = "delay"
	// Hold makes an attempt wait for Release if it is "true".
	Hold = "hold"
	// OnNode makes the volume for this node, whatever the claim selects.
	OnNode = "onNode"
)

// Values of FailureState.
const (
	// Reschedule removes the claim's selected node: try another one.
	Reschedule = "reschedule"
	// Finished keeps the selected node: this attempt is over, the next follows.
	Finished = "finished"
	// Background keeps the selected node: the volume may be in the making.
	Background = "background"
)

// parameters are those of a class, parsed.
type parameters struct {
	failures  int
	failNodes []string
	failure   FailureError
	delay     time.Duration
	hold      bool
	onNode    string
}

func parseParameters(class *storagev1.StorageClass) (parameters, error) {
	p := parameters{failure: FailureError{State: controller.ProvisioningReschedule, Message: "simulated failure"}}
	var err error
	for key, value := range class.Parameters {
		switch key {
		case Failures:
			p.failures, err = strconv.Atoi(value)
		case FailNodes:
			p.failNodes = strings.Split(value, ",")
		case FailureState:
			p.failure.State, err = parseState(value)
		case FailureMessage:
			p.failure.Message = value
		case Delay:
			p.delay, err = time.ParseDuration(value)
		case Hold:
			p.hold, err = strconv.ParseBool(value)
		case OnNode:
			p.onNode = value
		default:
			err = fmt.Errorf("unknown parameter")
		}
		if err != nil {
			return parameters{}, fmt.Errorf("reading parameter %s=%q of class %s: %w", key, value, class.Name, err)
		}
	}
	return p, nil
}

func parseState(value string) (controller.ProvisioningState, error) {
	switch value {
	case Reschedule:
		return controller.ProvisioningReschedule, nil
	case Finished:
		return controller.ProvisioningFinished, nil
	case Background:
		return controller.ProvisioningInBackground, nil
	default:
		return "", fmt.Errorf("want %s, %s or %s", Reschedule, Finished, Background)
	}
}

// fails tells whether an attempt is one of those that are to fail.
func (p parameters) fails(a Attempt) bool {
	return a.Number <= p.failures || slices.Contains(p.failNodes, a.Node)
}

// FailureError is an error of a provisioner and what the library does about it.
type FailureError struct {
	// State is one of the library's: ProvisioningReschedule removes the selected
	// node, ProvisioningFinished and ProvisioningInBackground keep it.
	State controller.ProvisioningState
	// Message ends up in the claim's event ProvisioningFailed.
	Message string
}

func (f *FailureError) Error() string { return f.Message }
