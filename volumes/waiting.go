package volumes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Wait is a bind call that waits for claims at this moment.
type Wait struct {
	Pod  types.NamespacedName
	UID  types.UID
	Node string
	// Since is when the call began to have claims bound.
	Since time.Time
	// Claims are those that are not bound yet, by name.
	Claims []WaitingClaim
}

// WaitingClaim is a claim that is not bound yet, as it was judged last.
type WaitingClaim struct {
	Name  string // in the pod's namespace
	Class string
	// Cause is a value of the label of prebind_waiting_claims, "provisioner" for one.
	Cause string
	// For is the same in words: "provisioner csi.example.com to make a volume for
	// node node-7".
	For string
}

// Waits lists the bind calls that wait, the longest one first.
func (p *Prebinder) Waits() []Wait { return p.waits.list() }

func (w *waits) list() []Wait {
	calls := map[*waitingCall][]WaitingClaim{}
	w.mu.Lock()
	for wait := range w.all {
		calls[wait.call] = append(calls[wait.call], WaitingClaim{
			Name: wait.claim.Name, Class: volume.GetPersistentVolumeClaimClass(wait.claim), Cause: string(wait.cause), For: wait.what,
		})
	}
	w.mu.Unlock()
	all := make([]Wait, 0, len(calls))
	for call, claims := range calls {
		slices.SortFunc(claims, func(a, b WaitingClaim) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, Wait{
			Pod: types.NamespacedName{Namespace: call.pod.Namespace, Name: call.pod.Name}, UID: call.pod.UID,
			Node: call.node, Since: call.since, Claims: claims,
		})
	}
	slices.SortFunc(all, func(a, b Wait) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.String(), b.Pod.String()))
	})
	return all
}

// untilNotice is how long it takes until people should be told of the call.
func (c *waitingCall) untilNotice() time.Duration {
	return NoticeAfter - time.Since(c.since)%NoticeAfter
}
