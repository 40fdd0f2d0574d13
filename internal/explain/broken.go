package explain

import (
	"fmt"

	"github.com/prebind/prebind/internal/fault"
)

// unbound is for a claim that is not prebind's to bind.
func (s *subject) unbound() (what, next string) {
	switch {
	case s.Volume != "" && s.explained.Volume == nil:
		return fmt.Sprintf("claim %s asks for volume %s, which does not exist", s.name, s.Volume), "Create the volume, or make the claim anew without spec.volumeName."
	case s.Volume != "":
		return fmt.Sprintf("claim %s asks for volume %s, and the PV controller has not bound them", s.name, s.Volume),
			"See the claim's events, and whether the volume is free, of the same class, and large enough."
	case s.Class == "":
		return fmt.Sprintf("claim %s is unbound and has no storageclass, so that the PV controller alone can bind it", s.name),
			"Create a volume without a class that fits the claim, or make the claim anew with a class."
	case s.explained.Class == nil:
		return fmt.Sprintf("claim %s is unbound, and its storageclass %s does not exist", s.name, s.Class), "Create the storageclass, or make the claim anew with another."
	}
	what = fmt.Sprintf("claim %s is unbound, and its storageclass %s binds immediately, before the pod is scheduled", s.name, s.Class)
	switch event := failure(s.Events); {
	case !s.provisions():
		return what, fmt.Sprintf("Create a volume of %s: the class provisions none.", s.needs())
	case event != nil:
		return s.failed(event), s.mend("it tries again by itself")
	}
	return what, fmt.Sprintf("Wait for provisioner %s to make a volume. If nothing comes, see whether it runs, and its log.", s.Provisioner)
}

// broken is for a claim that somebody has to mend.
func (s *subject) broken(code fault.Code) (what, next string) {
	recreate := fmt.Sprintf("`kubectl delete pvc %s --namespace %s`", s.name, s.pod.Namespace)
	switch code {
	case fault.ClaimNotFound:
		if s.Ephemeral {
			return fmt.Sprintf("claim %s, of an ephemeral volume, has not been created yet", s.name), "Wait for kube-controller-manager to create the claim; if it does not, the pod's events say why."
		}
		return fmt.Sprintf("claim %s does not exist", s.name), "Create the claim, or make the pod anew with the right name."
	case fault.ClaimLost:
		return s.lost(recreate)
	case fault.VolumeNotFound:
		return fmt.Sprintf("claim %s is bound to volume %s, which does not exist", s.name, s.Volume), s.restore(recreate)
	case fault.ClaimTerminating:
		return fmt.Sprintf("claim %s is being deleted", s.name), fmt.Sprintf("It goes when no pod uses it any more (`kubectl describe pvc %s --namespace %s` names them). "+
			"Delete pod %s, and make both anew.", s.name, s.pod.Namespace, s.podName())
	case fault.ClaimNotOwned:
		return fmt.Sprintf("claim %s, which has the name of the pod's ephemeral volume, was not created for the pod", s.name),
			"Make the pod anew under another name, or delete the claim: " + recreate + "."
	case fault.VolumeMismatch:
		return fmt.Sprintf("claim %s is bound to volume %s, which belongs to another claim", s.name, s.Volume), s.whose(recreate)
	}
	return fmt.Sprintf("claim %s: %s", s.name, s.explained.Cause), ""
}

func (s *subject) lost(recreate string) (what, next string) {
	what = fmt.Sprintf("claim %s is Lost: ", s.name)
	switch {
	case s.Volume == "":
		return what + "it has lost its spec.volumeName", "Give the data up and make the claim anew: " + recreate + "."
	case s.explained.Volume == nil:
		return what + fmt.Sprintf("its volume %s does not exist any more", s.Volume), s.restore(recreate)
	}
	return what + fmt.Sprintf("its volume %s belongs to another claim", s.Volume), s.whose(recreate)
}

// restore is for a claim whose volume is gone. The PV controller binds the two again
// once there is a volume of this name with this very claimRef; without the UID it takes
// the volume for another claim's.
func (s *subject) restore(recreate string) string {
	return fmt.Sprintf("If its storage still exists, create a PersistentVolume %s for it, with `claimRef: {namespace: %s, name: %s, uid: %s}`, and the claim is bound again. Else the data is gone: make the claim anew: %s.",
		s.Volume, s.pod.Namespace, s.name, s.explained.Claim.UID, recreate)
}

func (s *subject) whose(recreate string) string {
	return "Find out whose data the volume has, then make the wrong claim anew: " + recreate + "."
}
