package differential

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	csiplugins "k8s.io/csi-translation-lib/plugins"
)

// example is the smallest state that shows a difference: one node, one claim
// c0 of 5Gi in a class, one volume pv-0 of 10Gi of that class.
type example struct {
	class string // local or fast
	with  func(s *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume)
	// upstream and prebind are the answers for c0.
	upstream, prebind what
}

func examples() map[string]example {
	return map[string]example{
		"pre-bound elsewhere": {
			class: "fast", upstream: dynamic, prebind: nodeConflict,
			with: func(_ *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				preBind(pv, claim.Name, "")
				onHost(pv, "n1")
			},
		},
		"half bound": {
			class: "local", upstream: unbound, prebind: completing,
			with: func(_ *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				claim.Spec.VolumeName = pv.Name
				preBind(pv, claim.Name, "uid-c0")
			},
		},
		"capacity asked once": {
			class: "fast", upstream: noCapacity, prebind: dynamic,
			with: func(s *state, claim *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
				s.drivers = []*storagev1.CSIDriver{{ObjectMeta: named(csiDriver), Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}}
				claim.Annotations[volume.AnnSelectedNode] = s.nodes[0].Name
			},
		},
		"provisioned for another node": {
			class: "fast", upstream: noVolume, prebind: selectedElsewhere,
			with: func(_ *state, claim *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
				claim.Annotations[volume.AnnSelectedNode] = "n1.example"
			},
		},
		"volume of another claim": {
			class: "local", upstream: bound, prebind: volumeMismatch,
			with: func(_ *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				complete(claim, pv)
				preBind(pv, claim.Name, "stale")
			},
		},
		"volume that cannot be translated": {
			class: "local", upstream: untranslatable, prebind: nodeConflict,
			with: func(s *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				complete(claim, pv)
				preBind(pv, claim.Name, "uid-c0")
				pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://half/broken/id"}
				s.csiNodes = []*storagev1.CSINode{{ObjectMeta: named(s.nodes[0].Name)}}
				s.csiNodes[0].Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: csiplugins.AWSEBSInTreePluginName}
			},
		},
		claimTwice: {
			class: "local", upstream: noVolume, prebind: static,
			with: func(s *state, claim *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
				s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource("again", claim.Name))
			},
		},
		fewModes: {
			class: "local", upstream: static, prebind: noVolume,
			with: func(_ *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
				preBind(pv, claim.Name, "")
				claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
				pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
			},
		},
		allReasons: {
			class: "local", upstream: unbound, prebind: noVolume,
			with: func(s *state, claim *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
				claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("20Gi")
				another := claim.DeepCopy()
				another.Name, another.UID, another.Spec.StorageClassName = "c1", uidOf("c1"), nil
				s.claims = append(s.claims, another)
				s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource("c1", "c1"))
			},
		},
	}
}

// TestEachDifferenceByExample shows every listed difference once, in a state
// that one can read.
func TestEachDifferenceByExample(t *testing.T) {
	ours, theirs := newPrebind(t), newUpstream(t)
	shown := examples()
	for _, name := range differenceNames() {
		t.Run(name, func(t *testing.T) {
			e, ok := shown[name]
			if !ok {
				t.Fatal("this difference has no example")
			}
			s := exampleState(e)
			c := newComparison(t, ours, theirs, s)
			if err := c.run(t.Context()); err != nil {
				t.Fatalf("%v\n\n%s", err, s)
			}
			if n := c.tally.seen[differs(name)]; n != 1 {
				t.Errorf("the difference is seen %d times, want once:\n%s", n, s)
			}
			if got := theirs.says(t.Context(), s.pod, s.nodes[0], nil).of("c0").what; got != e.upstream {
				t.Errorf("kube-scheduler says %q, want %q:\n%s", got, e.upstream, s)
			}
			got, _, err := ours.says(t.Context(), s.pod, s.nodes[0])
			if err != nil || got.claims["c0"].what != e.prebind {
				t.Errorf("prebind says %q, error %v; want %q:\n%s", got.claims["c0"].what, err, e.prebind, s)
			}
		})
	}
}

// TestAskTriesEveryTie has two claims and two volumes of one size, of which
// only pv-1 is good for the second claim: whether the pod fits depends on which
// of them kube-scheduler's cache lists first.
func TestAskTriesEveryTie(t *testing.T) {
	s := exampleState(example{class: "local", with: func(s *state, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
		another := pv.DeepCopy()
		another.Name, another.UID, another.Labels = "pv-1", uidOf("pv-1"), map[string]string{labelTier: "gold"}
		s.volumes = append(s.volumes, another)
		picky := claim.DeepCopy()
		picky.Name, picky.UID, picky.Spec.Selector = "c1", uidOf("c1"), &metav1.LabelSelector{MatchLabels: another.Labels}
		s.claims = append(s.claims, picky)
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, claimSource("c1", "c1"))
	}})
	c := newComparison(t, newPrebind(t), newUpstream(t), s)
	c.pod = s.pod
	for _, want := range []bool{true, false} {
		theirs, agree := c.ask(t.Context(), []string{"c0", "c1"}, func(v verdict) bool { return v.fits() == want })
		if !agree {
			t.Errorf("no order of the volumes makes fits %t; the first answer is\n    %s", want, theirs)
		}
	}
	if n := c.tally.seen[otherTies]; n != 1 {
		t.Errorf("another order was needed %d times, want once", n)
	}
}

func newComparison(t *testing.T, ours *prebind, theirs *upstream, s *state) *comparison {
	t.Helper()
	if err := ours.caches.load(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := theirs.load(s); err != nil {
		t.Fatal(err)
	}
	return &comparison{prebind: ours, upstream: theirs, tally: newTally(), state: s, node: s.nodes[0]}
}

func exampleState(e example) *state {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	node := &v1.Node{ObjectMeta: named("n0.example")}
	node.Labels = map[string]string{v1.LabelHostname: "n0"}
	pod := &v1.Pod{ObjectMeta: named(podName), Spec: v1.PodSpec{Volumes: []v1.Volume{claimSource("c0", "c0")}}}
	pod.Namespace = namespace
	claim := &v1.PersistentVolumeClaim{ObjectMeta: named("c0")}
	claim.Namespace, claim.Annotations = namespace, map[string]string{}
	claim.Spec.StorageClassName = &e.class
	claim.Spec.AccessModes = modes(v1.ReadWriteOnce)
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("5Gi")}
	pv := &v1.PersistentVolume{ObjectMeta: named("pv-0")}
	pv.Spec.StorageClassName, pv.Spec.AccessModes = e.class, modes(v1.ReadWriteOnce)
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}
	pv.Status.Phase = v1.VolumeAvailable
	s := &state{
		pod: pod, nodes: []*v1.Node{node}, claims: []*v1.PersistentVolumeClaim{claim}, volumes: []*v1.PersistentVolume{pv},
		classes: []*storagev1.StorageClass{
			{ObjectMeta: named("local"), Provisioner: volume.NotSupportedProvisioner, VolumeBindingMode: &wait},
			{ObjectMeta: named("fast"), Provisioner: csiDriver, VolumeBindingMode: &wait},
		},
	}
	e.with(s, claim, pv)
	return s
}
