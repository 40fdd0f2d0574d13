package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/fault"
)

// answer is what is said of one claim: how it gets its volume on the node, or
// why it does not.
type answer struct {
	what   what
	volume string // name and size; empty for dynamic, and for a refusal
	text   string // the words of a refusal
}

func (a answer) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s%s", a.what, a.volume, a.text), " ")
}

// what is the kind of an answer.
type what string

// What can become of a claim.
const (
	bound      what = "bound"      // nothing to do
	completing what = "completing" // claimed by its volume, to be waited for
	static     what = "static"     // to be bound to a volume
	dynamic    what = "dynamic"    // to be provisioned
)

// Why a claim can be refused.
const (
	noClaim           what = "no claim"
	noEphemeralClaim  what = "no ephemeral claim"
	lost              what = "lost"
	terminating       what = "terminating"
	notOwned          what = "not owned"
	unbound           what = "unbound immediate"
	volumeGone        what = "volume gone"
	nodeConflict      what = "node conflict"
	noVolume          what = "no volume"
	noCapacity        what = "no capacity"
	untranslatable    what = "untranslatable"     // upstream only
	selectedElsewhere what = "selected elsewhere" // ours only
	volumeMismatch    what = "volume mismatch"    // ours only
)

// reason ties a refusal to kube-scheduler's words for it and to our code.
// With ours alone the words are ours.
type reason struct {
	what  what
	words string
	code  fault.Code // empty if only upstream says so
	ours  bool       // only we say so
}

// reasons are looked through in order, so the more exact words come first.
func reasons() []reason {
	return []reason{
		{what: unbound, words: "pod has unbound immediate PersistentVolumeClaims", code: fault.ClaimUnbound},
		{what: nodeConflict, words: "node(s) didn't match PersistentVolume's node affinity", code: fault.NodeConflict},
		{what: noVolume, words: "node(s) didn't find available persistent volumes to bind", code: fault.NoVolume},
		{what: noCapacity, words: "node(s) did not have enough free storage", code: fault.NoCapacity},
		{what: volumeGone, words: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", code: fault.VolumeNotFound},
		{what: noEphemeralClaim, words: "waiting for ephemeral volume controller to create the persistentvolumeclaim", code: fault.ClaimNotFound},
		{what: lost, words: "bound to non-existent persistentvolume ", code: fault.ClaimLost},
		{what: terminating, words: "is being deleted", code: fault.ClaimTerminating},
		{what: notOwned, words: "pod is not owner", code: fault.ClaimNotOwned},
		{what: noClaim, words: "not found", code: fault.ClaimNotFound},
		{what: untranslatable, words: "could not translate pv"},
		{what: selectedElsewhere, words: "it is being provisioned for node ", code: fault.SelectedNodeConflict, ours: true},
		{what: volumeMismatch, words: "is claimed by ", code: fault.VolumeMismatch, ours: true},
	}
}

// verdict is what is said of a whole pod on a node: an answer for each claim
// or, from upstream, refusals that name no claim.
type verdict struct {
	claims  map[string]answer
	refused []answer // sorted; empty if the pod fits
}

func (v verdict) fits() bool { return len(v.refused) == 0 }

// refusals lists the kinds of refusal, each once, sorted.
func (v verdict) refusals() []what {
	kinds := make([]what, 0, len(v.refused))
	for _, r := range v.refused {
		kinds = append(kinds, r.what)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// of returns the answer for the only claim of a pod.
func (v verdict) of(claim string) answer {
	if v.fits() {
		return v.claims[claim]
	}
	return v.refused[0]
}

func (v verdict) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(v.claims)) {
		lines = append(lines, name+": "+v.claims[name].String())
	}
	if !v.fits() && v.claims == nil {
		for _, r := range v.refused {
			lines = append(lines, r.String())
		}
	}
	return strings.Join(lines, "\n    ")
}

// sized names a volume with its size in bytes, so that volumes of one size in
// other words compare equal.
func sized(pv *v1.PersistentVolume) string {
	size := pv.Spec.Capacity[v1.ResourceStorage]
	return fmt.Sprintf("%s (%d)", pv.Name, size.Value())
}
