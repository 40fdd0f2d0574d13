package explain

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// claim tells what is known of the claim but for reasons and next, which need all.
func (f *findings) claim(i int) Claim {
	e := &f.explanation.Claims[i]
	c := Claim{
		Claim: f.pod.Namespace + "/" + e.Name, Ephemeral: e.Ephemeral, State: string(e.State), WaitsFor: e.WaitsFor,
		AccessModes: []string{}, Reasons: []string{}, Events: []Event{},
	}
	if len(f.explanation.Nodes) == 1 && f.target.Node != "" {
		onNode := f.outcome(i, &f.explanation.Nodes[0])
		c.OnNode = &onNode
	}
	if e.Claim == nil {
		if f.lacks.has("get", "persistentvolumeclaims", e.Name) {
			c.State, c.WaitsFor = "Unknown", ""
		}
		return c
	}
	spec := &e.Claim.Spec
	c.Class, c.Volume = volume.GetPersistentVolumeClaimClass(e.Claim), spec.VolumeName
	if e.Class != nil {
		c.Provisioner = e.Class.Provisioner
		if e.Class.VolumeBindingMode != nil {
			c.BindingMode = string(*e.Class.VolumeBindingMode)
		}
	}
	if size, sized := spec.Resources.Requests[v1.ResourceStorage]; sized {
		c.Size = size.String()
	}
	for _, mode := range spec.AccessModes {
		c.AccessModes = append(c.AccessModes, string(mode))
	}
	if spec.VolumeMode != nil {
		c.VolumeMode = string(*spec.VolumeMode)
	}
	if spec.VolumeName == "" {
		c.SelectedNode = e.Claim.Annotations[volume.AnnSelectedNode]
	}
	if events := f.events[e.Name]; events != nil {
		c.Events = events
	}
	if f.notKnown(e) != "" {
		c.State, c.WaitsFor = stateWithout(e)
	}
	if e.Candidates != nil && !f.lacks.has("list", "persistentvolumes", "") {
		c.Candidates = newCandidates(e.Candidates)
	}
	return c
}

// notKnown says what could not be read without which nothing can be said of the
// claim on any node, or "".
func (f *findings) notKnown(e *volumes.ExplainedClaim) string {
	lack := volumes.Lack{Verb: "get"}
	switch {
	case e.Claim == nil:
		lack.Resource, lack.Name = "persistentvolumeclaims", e.Name
	case e.Claim.Spec.VolumeName != "":
		lack.Resource, lack.Name = "persistentvolumes", e.Claim.Spec.VolumeName
	default:
		lack.Resource, lack.Name = "storageclasses", volume.GetPersistentVolumeClaimClass(e.Claim)
	}
	if lack.Name == "" || !f.lacks.has(lack.Verb, lack.Resource, lack.Name) {
		return ""
	}
	return "you may not " + lack.String()
}

// stateWithout is what the claim alone tells, where its volume or class is not known.
func stateWithout(e *volumes.ExplainedClaim) (state, waitsFor string) {
	switch {
	case e.State == volumes.StateLost || e.State == volumes.StateTerminating || e.State == volumes.StateNotOwned:
		return string(e.State), e.WaitsFor
	case e.Claim.Status.Phase == v1.ClaimBound:
		return string(volumes.StateBound), ""
	case e.Claim.Spec.VolumeName != "":
		return string(volumes.StateBinding), ""
	case e.Claim.Annotations[volume.AnnSelectedNode] != "":
		return string(volumes.StateProvisioning), ""
	}
	return string(volumes.StatePending), ""
}

// outcome says what happens about the claim on the node, or that it is not known.
func (f *findings) outcome(i int, node *volumes.ExplainedNode) Outcome {
	e, o := &f.explanation.Claims[i], &node.Claims[i]
	out := Outcome{Claim: f.pod.Namespace + "/" + e.Name}
	if why := f.unsure(e, o); why != "" {
		out.Outcome, out.Reason, out.general = unknown, why, why
		return out
	}
	out.Outcome, out.Code, out.Reason, out.general = string(o.Kind), string(o.Code), o.Cause, o.Reason
	if o.Kind == volumes.OutcomeProvision {
		out.Provisioner = o.Provisioner
	}
	if o.Volume != nil {
		out.Volume = o.Volume.Name
	}
	if o.Room != nil {
		out.Reason += ": " + room(o.Room)
	}
	return out
}

// unsure says why the outcome may be another for somebody who may read more, or "".
func (f *findings) unsure(e *volumes.ExplainedClaim, o *volumes.Outcome) string {
	if why := f.notKnown(e); why != "" {
		switch e.State {
		case volumes.StateLost, volumes.StateTerminating, volumes.StateNotOwned: // whatever else
			return ""
		}
		return why
	}
	if e.Candidates == nil {
		return ""
	}
	places := o.Kind == volumes.OutcomeProvision || o.Code == fault.NoVolume || o.Code == fault.NoCapacity
	switch {
	case places && f.lacks.has("list", "persistentvolumes", ""):
		return "you may not list persistentvolumes: it may find one"
	case o.Kind == volumes.OutcomeProvision && f.lacks.has("get", "csidrivers", o.Provisioner):
		return "you may not get csidrivers " + o.Provisioner + ": it may want to check its capacity"
	case o.Code == fault.NoCapacity && f.lacks.has("list", "csistoragecapacities", ""):
		return "you may not list csistoragecapacities: there may be room"
	}
	return ""
}

// room says how much is reported.
func room(reported *storagev1.CSIStorageCapacity) string {
	most := mostOf(reported)
	return fmt.Sprintf("%s is the most that is reported (csistoragecapacity %s/%s)", most.String(), reported.Namespace, reported.Name)
}

// mostOf is how large a volume may be made, by what is reported.
func mostOf(reported *storagev1.CSIStorageCapacity) *resource.Quantity {
	if reported.MaximumVolumeSize != nil {
		return reported.MaximumVolumeSize
	}
	return reported.Capacity
}

// more tells whether a has room for a larger volume than b, which may be nil.
func more(a, b *storagev1.CSIStorageCapacity) bool {
	return a != nil && (b == nil || mostOf(a).Cmp(*mostOf(b)) > 0)
}

func newCandidates(found *volumes.Candidates) *Candidates {
	c := &Candidates{Considered: found.Considered, Fitting: found.Fitting, Fit: []string{}, Refused: []Count{}, Nearest: []Volume{}}
	for _, pv := range found.Fit {
		c.Fit = append(c.Fit, pv.Name)
	}
	for _, count := range found.Counts {
		c.Refused = append(c.Refused, Count{string(count.Why), count.Count})
	}
	for _, refused := range found.Nearest {
		c.Nearest = append(c.Nearest, Volume{refused.Volume.Name, refused.Details})
	}
	return c
}
