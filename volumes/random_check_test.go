package volumes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/testkit"
)

// audit looks at every write that a Prebinder sends, as it is sent and as it
// is applied, and collects what is wrong.
type audit struct {
	mu       sync.Mutex
	problems []string
	settled  map[string]string // call, and write with its version -> how it ended
	writes   int
	// completed are the claims' sides that were written.
	completed []completion
}

// completion is a claim completed for a volume, at a version of the API.
type completion struct {
	call    *randomCall
	claim   *v1.PersistentVolumeClaim
	version int64
}

func (a *audit) wrong(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// detached tells whether a request's context goes on when its call's has ended.
// If the two end together, the request was sent just before. The time is
// virtual: it passes when nothing else can happen.
func detached(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Nanosecond):
		return true
	}
}

func (a *audit) found() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.problems)
}

// sent checks a request as it leaves: nothing is written for a call that has
// ended, and no write is sent again whose outcome is known and final for the
// version that it was decided on.
func (a *audit) sent(ctx context.Context, r testkit.Request) {
	if r.Verb == "get" {
		return
	}
	call, ok := r.By.(*randomCall)
	if !ok {
		a.wrong("%s: sent for no call", r)
		return
	}
	if call.ctx.Err() != nil && detached(ctx) {
		a.wrong("%s: sent after the context of %s had ended", r, call)
	}
	a.mu.Lock()
	outcome, again := a.settled[call.String()+r.Name+r.Body]
	a.mu.Unlock()
	if again {
		a.wrong("%s of %s: the same write was %s before: %s", r, call, outcome, r.Body)
	}
}

// patched is all that a patch of ours may have.
type patched struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		UID             types.UID         `json:"uid"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec *struct {
		ClaimRef   *v1.ObjectReference `json:"claimRef"`
		VolumeName string              `json:"volumeName"`
	} `json:"spec"`
	Status *struct {
		Phase v1.PersistentVolumePhase `json:"phase"`
	} `json:"status"`
}

// applied checks a write as the API server applies or refuses it.
func (a *audit) applied(w testkit.Write) {
	call, ok := w.By.(*randomCall)
	if !ok || w.Verb != "patch" {
		a.wrong("%s: not a patch of a call", w)
		return
	}
	var body patched
	if err := strictly(w.Body, &body); err != nil {
		a.wrong("%s of %s: %v: %s", w, call, err, w.Body)
	}
	if body.Metadata.ResourceVersion == "" || body.Metadata.UID == "" {
		a.wrong("%s of %s: without resourceVersion or uid: %s", w, call, w.Body)
	}
	a.mu.Lock()
	a.writes++
	switch {
	case w.Err == nil:
		a.settled[call.String()+w.Name+w.Body] = "accepted"
	case apierrors.IsConflict(w.Err):
		a.settled[call.String()+w.Name+w.Body] = "refused as a conflict"
	}
	a.mu.Unlock()
	if w.Err != nil {
		return
	}
	if w.Before == w.After {
		a.wrong("%s of %s: it changed nothing: %s", w, call, w.Body)
		return
	}
	switch after := w.After.(type) {
	case *v1.PersistentVolume:
		if w.Resource == "persistentvolumes/status" {
			a.phase(call, w.Before.(*v1.PersistentVolume), after)
			return
		}
		a.volume(call, w.Before.(*v1.PersistentVolume), after)
	case *v1.PersistentVolumeClaim:
		if body.Spec != nil {
			a.completion(call, w.Before.(*v1.PersistentVolumeClaim), after)
			return
		}
		a.claim(call, w.Before.(*v1.PersistentVolumeClaim), after)
	default:
		a.wrong("%s of %s: not ours to write", w, call)
	}
}

func strictly(body string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (a *audit) volume(call *randomCall, before, after *v1.PersistentVolume) {
	want, ref := before.DeepCopy(), after.Spec.ClaimRef
	want.ResourceVersion, want.Spec.ClaimRef = after.ResourceVersion, ref
	if before.Spec.ClaimRef == nil {
		testkit.VolumeBuilder{PersistentVolume: want}.Annotate(volume.AnnBoundByController, "yes")
	}
	if diff := cmp.Diff(want, after, cmpopts.EquateEmpty()); diff != "" {
		a.wrong("%s wrote more of volume %s than claimRef (-want +got):\n%s", call, after.Name, diff)
	}
	if ref == nil || ref.UID == "" || ref.ResourceVersion == "" || ref.Kind != "PersistentVolumeClaim" || ref.Namespace != testkit.Namespace || !call.uses(ref.Name) {
		a.wrong("%s wrote claimRef %v to volume %s", call, ref, after.Name)
		return
	}
	if old := before.Spec.ClaimRef; old != nil && (old.Name != ref.Name || old.Namespace != ref.Namespace || (old.UID != "" && old.UID != ref.UID)) {
		a.wrong("%s overwrote claimRef %v of volume %s with %v", call, old, after.Name, ref)
	}
	if before.Spec.ClaimRef == nil && before.Status.Phase != v1.VolumeAvailable {
		a.wrong("%s took volume %s in phase %q", call, after.Name, before.Status.Phase)
	}
}

func (a *audit) claim(call *randomCall, before, after *v1.PersistentVolumeClaim) {
	if old, asked := before.Annotations[volume.AnnSelectedNode]; asked {
		a.wrong("%s wrote selected-node of claim %s, which had %q", call, after.Name, old)
	}
	if got := after.Annotations[volume.AnnSelectedNode]; got != call.node || !call.uses(after.Name) {
		a.wrong("%s wrote selected-node %q to claim %s", call, got, after.Name)
	}
	want := before.DeepCopy()
	want.ResourceVersion = after.ResourceVersion
	testkit.ClaimBuilder{PersistentVolumeClaim: want}.Annotate(volume.AnnSelectedNode, call.node)
	if diff := cmp.Diff(want, after, cmpopts.EquateEmpty()); diff != "" {
		a.wrong("%s wrote more of claim %s than selected-node (-want +got):\n%s", call, after.Name, diff)
	}
}

// succeeded checks that during the call each claim was, at some moment, fully
// bound to a volume that the node could reach. Of node and volume the replica
// may have seen what its watch shows, which can be older than the call.
func (a *audit) succeeded(w *world, call *randomCall) {
	now := w.Version()
	nodes := w.States("nodes", call.node, call.replica.shown("nodes", call.quiet), now)
	for _, name := range call.claims {
		if !slices.ContainsFunc(w.States("persistentvolumeclaims", name, call.began, now), func(obj runtime.Object) bool {
			claim, ok := obj.(*v1.PersistentVolumeClaim)
			if !ok || claim.Spec.VolumeName == "" || claim.Annotations[volume.AnnBindCompleted] == "" {
				return false
			}
			return slices.ContainsFunc(w.States("persistentvolumes", claim.Spec.VolumeName, call.replica.shown("persistentvolumes", call.quiet), now), func(obj runtime.Object) bool {
				pv, ok := obj.(*v1.PersistentVolume)
				return ok && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID && slices.ContainsFunc(nodes, func(obj runtime.Object) bool {
					node, ok := obj.(*v1.Node)
					return ok && volume.CheckNodeAffinity(pv, node.Labels) == nil
				})
			})
		}) {
			a.wrong("%s succeeded, and claim %s was never fully bound for the node meanwhile (versions %d to %d)", call, name, call.began, now)
		}
	}
}
