package volumescheduling_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/test/build"
)

// goodFacts are those of one pod with two claims: one for a static volume that
// prebind chose, one whose volume was made.
func goodFacts() facts {
	bound := func(name, pv string) *build.ClaimBuilder {
		return build.Claim("ns", name).Class("wait").Volume(pv).Annotation(volume.AnnBindCompleted, "yes").Annotation(volume.AnnBoundByController, "yes")
	}
	static, dynamic := bound("static", "v1").Obj(), bound("made", "v2").Annotation(volume.AnnSelectedNode, "node").Obj()
	static.UID, dynamic.UID = "1", "2"
	written(dynamic, "test", "prebind")
	chosen := build.Volume("v1").Class("wait").OnNode("node").ClaimRef("ns", "static", "1").Annotation(volume.AnnBoundByController, "yes").Obj()
	made := build.Volume("v2").Class("wait").OnNode("node").ClaimRef("ns", "made", "2").Obj()
	written(chosen, "test", "prebind")
	pod := build.Pod("ns", "web").Claim("static", "made").NodeName("node").Obj()
	pod.UID = "3"
	return facts{
		boundAt: map[types.UID]uint64{"1": 10, "2": 11, "3": 12},
		pods:    []v1.Pod{*pod},
		claims:  []v1.PersistentVolumeClaim{*static, *dynamic},
		volumes: []v1.PersistentVolume{*chosen, *made, *build.Volume("free").Class("wait").OnNode("node").Obj()},
		nodes:   []v1.Node{*build.Node("node").Obj()},
		classes: []storagev1.StorageClass{*build.Class("wait").Obj()},
	}
}

func written(object metav1.Object, managers ...string) {
	var fields []metav1.ManagedFieldsEntry
	for _, name := range managers {
		fields = append(fields, metav1.ManagedFieldsEntry{Manager: name})
	}
	object.SetManagedFields(fields)
}

// The check of every scenario must find what it is there for.
func TestFactsFindWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		spoil func(*facts)
		want  string // part of one of the lines; empty: nothing is wrong
	}{
		"nothing": {func(*facts) {}, ""},
		"an unbound pod may have unbound claims": {func(f *facts) {
			f.pods[0].Spec.NodeName = ""
			f.claims[0] = *build.Claim("ns", "static").Class("wait").Obj()
			f.volumes[0].Spec.ClaimRef = nil
		}, ""},
		"a claim is gone":               {func(f *facts) { f.claims = f.claims[1:] }, "its claim static is not there"},
		"a claim names no volume":       {func(f *facts) { f.claims[0].Spec.VolumeName = "" }, "its claim static is not: volumeName \"\""},
		"a claim is half bound":         {func(f *facts) { delete(f.claims[0].Annotations, volume.AnnBindCompleted) }, "its claim static is not: volumeName \"v1\""},
		"a volume is gone":              {func(f *facts) { f.volumes = f.volumes[1:] }, "volume v1 of its claim static is not there"},
		"a volume is of an older claim": {func(f *facts) { f.volumes[0].Spec.ClaimRef.UID = "0" }, "volume v1 of its claim static (uid 1) has claimRef"},
		"a volume is out of reach": {func(f *facts) {
			f.volumes[1].Spec.NodeAffinity = build.Volume("x").OnNode("other").Obj().Spec.NodeAffinity
		}, "which cannot reach volume v2"},
		"a claim was bound after its pod": {func(f *facts) { f.boundAt["1"] = 13 }, "pod web was bound (version 12) before its claim static (version 13)"},
		"a volume was taken away": {func(f *facts) {
			f.thefts = []theft{{"v1", v1.ObjectReference{Name: "made", UID: "2"}, v1.ObjectReference{Name: "static", UID: "1"}}}
		}, "volume v1 was taken from claim made and given to static"},
		"the node is gone":              {func(f *facts) { f.nodes = nil }, "on node node, which is not there"},
		"a volume has two claims":       {func(f *facts) { f.claims[1].Spec.VolumeName = "v1" }, "volume v1 has two claims, static and made"},
		"a claim holds a second volume": {func(f *facts) { f.volumes[2].Spec.ClaimRef = f.volumes[0].Spec.ClaimRef }, "volume free is held for claim static, which has volume \"v1\""},
		"a volume is held for nobody": {func(f *facts) {
			f.volumes[2].Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "old", UID: "9"}
		}, "volume free is held for claim old (uid 9), which is not there"},
		"of another namespace": {func(f *facts) {
			f.volumes[2].Spec.ClaimRef = &v1.ObjectReference{Namespace: "other", Name: "old", UID: "9"}
		}, ""},
		"a volume is pre-bound by name": {func(f *facts) { f.volumes[2].Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "coming"} }, ""},
		"nobody chose the volume":       {func(f *facts) { written(&f.volumes[0], "test") }, "volume v1 of claim static was not chosen by prebind"},
		"it names its claim, so no choice": {func(f *facts) {
			written(&f.volumes[0], "test")
			delete(f.volumes[0].Annotations, volume.AnnBoundByController)
		}, ""},
		"somebody else selected the node": {func(f *facts) { written(&f.claims[1], "test") }, "the selected node of claim made was not written by prebind"},
		"the scheduler writes too":        {func(f *facts) { written(&f.claims[1], "prebind", "kube-scheduler") }, "written by kube-scheduler, not by prebind alone"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := goodFacts()
			tc.spoil(&f)
			got := f.wrong("prebind")
			if tc.want == "" && len(got) > 0 {
				t.Errorf("found wrong: %q, want nothing", got)
			}
			if tc.want != "" && !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, tc.want) }) {
				t.Errorf("found wrong: %q, want a line with %q", got, tc.want)
			}
		})
	}
}
