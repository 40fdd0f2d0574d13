package volumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/prebind/prebind/internal/testkit"
)

// check plans pods in both ways.
func (w *indexWorld) check(t *rapid.T) {
	for _, claims := range [][]string{{"c-0"}, {"c-1"}, {"c-2", "c-3"}} {
		w.checkFilter(t, testkit.Pod("p").Uses(claims...).Pod)
	}
	for _, node := range w.nodes {
		for _, claims := range [][]string{{"c-0"}, {"c-1"}, {"c-2", "c-3"}, {"c-0", "c-1", "c-2", "c-3"}} {
			pod := testkit.Pod("p").Uses(claims...).Pod
			indexed, err := w.byIndex(t, pod, node)
			got := showPlan(indexed, err)
			want := w.byScan(t, pod, node)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("claims %v on node %s %v (-scan +index):\n%s\nvolumes:\n%s", claims, node.Name, node.Labels, diff, w.show())
			}
			w.count(indexed, got)
		}
	}
}

func (w *indexWorld) byIndex(t *rapid.T, pod *v1.Pod, node *v1.Node) (*Plan, error) {
	facts, err := w.p.gather(t.Context(), &reader{caches: w.p.caches}, pod)
	if err != nil {
		t.Fatal(err)
	}
	return facts.planOn(node)
}

// byScan gives FindMatchingVolume all there is.
func (w *indexWorld) byScan(t *rapid.T, pod *v1.Pod, node *v1.Node) string {
	gathered, err := w.p.gather(t.Context(), &reader{caches: w.p.caches}, pod)
	if err != nil {
		t.Fatal(err)
	}
	facts := &Facts{Pod: pod, Node: node, Claims: gathered.claims}
	for i := range facts.Claims {
		c := &facts.Claims[i]
		c.Candidates, c.Free, c.Considered, c.Room = nil, nil, 0, nil
		for _, obj := range w.store("csistoragecapacities").List() {
			if reported := obj.(*storagev1.CSIStorageCapacity); c.Class != nil && reported.StorageClassName == c.Class.Name && suffices(reported, c.Claim, node) {
				c.Room = reported
			}
		}
		class := volume.GetPersistentVolumeClaimClass(c.Claim)
		var prebound, free []*v1.PersistentVolume
		for _, pv := range w.all() {
			switch {
			case volume.GetPersistentVolumeClass(pv) != class:
			case volume.IsVolumeBoundToClaim(pv, c.Claim) && volume.CheckAccessModes(c.Claim, pv):
				prebound = append(prebound, pv)
			case pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable && pv.DeletionTimestamp == nil:
				free = append(free, pv)
			}
		}
		c.Candidates = slices.Concat(prebound, w.p.reservations.open(c.Claim.UID, free))
	}
	plan, err := MakePlan(facts)
	return showPlan(plan, err)
}

// suffices judges one report, as kube-scheduler does.
func suffices(reported *storagev1.CSIStorageCapacity, claim *v1.PersistentVolumeClaim, node *v1.Node) bool {
	limit := reported.MaximumVolumeSize // the more precise one, where given
	if limit == nil {
		limit = reported.Capacity
	}
	size, sized := claim.Spec.Resources.Requests[v1.ResourceStorage]
	if !sized || limit == nil || limit.Value() < size.Value() || reported.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(reported.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// all returns the cached volumes by name.
func (w *indexWorld) all() []*v1.PersistentVolume {
	var all []*v1.PersistentVolume
	for _, obj := range w.store("persistentvolumes").List() {
		all = append(all, obj.(*v1.PersistentVolume))
	}
	slices.SortFunc(all, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (w *indexWorld) show() string {
	held := w.p.reservations.held()
	var text strings.Builder
	for _, pv := range w.all() {
		fmt.Fprintf(&text, "%s class %s size %v phase %s claimRef %v affinity %v held for %q\n", pv.Name, volume.GetPersistentVolumeClass(pv),
			pv.Spec.Capacity.Storage(), pv.Status.Phase, pv.Spec.ClaimRef, pv.Spec.NodeAffinity, held[pv.Name])
	}
	return text.String()
}

// count notes what kinds of answers there were, so that a test which sees nothing
// is seen.
func (w *indexWorld) count(plan *Plan, text string) {
	if plan == nil {
		code, _, _ := strings.Cut(text, ":")
		w.seen[code]++
		return
	}
	if len(plan.Static) > 0 {
		w.seen["static"]++
	}
	if len(plan.Dynamic) > 0 {
		w.seen["dynamic"]++
	}
	for i, b := range plan.Static[min(1, len(plan.Static)):] {
		w.seen["two static"]++
		before := plan.Static[i]
		if volume.GetPersistentVolumeClass(before.Volume) != volume.GetPersistentVolumeClass(b.Volume) {
			continue
		}
		alone, err := volume.FindMatchingVolume(b.Claim, []*v1.PersistentVolume{before.Volume}, nil, nil, false, true)
		if err == nil && alone != nil && before.Volume.Spec.ClaimRef == nil {
			w.seen["passed over"]++
		}
		if before.Volume.Spec.Capacity.Storage().Cmp(*b.Volume.Spec.Capacity.Storage()) == 0 {
			w.seen["tie"]++
		}
	}
}

func showPlan(plan *Plan, err error) string {
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, b := range plan.Static {
		fmt.Fprintf(&text, "static %s -> %s\n", b.Claim.Name, b.Volume.Name)
	}
	for _, b := range plan.Dynamic {
		fmt.Fprintf(&text, "dynamic %s\n", b.Claim.Name)
	}
	return text.String()
}
