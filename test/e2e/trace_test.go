package e2e_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// manager is the name under which the API server records prebind's writes in
// an object's managedFields. Such a record, unlike a resourceVersion, tells
// prebind's writes from those of the controllers.
const manager = "prebind"

// snapshot is how a fixture's claims and volumes were at one moment.
type snapshot struct {
	f       *fixture
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
}

func (f *fixture) snapshot() *snapshot {
	f.t.Helper()
	s := &snapshot{f: f, claims: map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{}}
	claims, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	for i := range claims.Items {
		s.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	pvs, err := f.client.CoreV1().PersistentVolumes().List(f.ctx, metav1.ListOptions{})
	f.must(err)
	for i := range pvs.Items {
		pv := &pvs.Items[i]
		if strings.HasPrefix(pv.Name, f.ns+"-") || pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == f.ns {
			s.volumes[pv.Name] = pv
		}
	}
	return s
}

// unwritten checks that prebind has written none of the objects since.
func (s *snapshot) unwritten() {
	s.f.t.Helper()
	now := s.f.snapshot()
	for name, claim := range now.claims {
		var before string
		if old := s.claims[name]; old != nil && old.UID == claim.UID {
			before = written(&old.ObjectMeta)
		}
		if after := written(&claim.ObjectMeta); after != before {
			s.f.t.Errorf("prebind has written claim %s: %s", name, after)
		}
	}
	for name, pv := range now.volumes {
		var before string
		if old := s.volumes[name]; old != nil && old.UID == pv.UID {
			before = written(&old.ObjectMeta)
		}
		if after := written(&pv.ObjectMeta); after != before {
			s.f.t.Errorf("prebind has written volume %s: %s", name, after)
		}
	}
}

// written returns the fields of an object that prebind has set.
func written(meta *metav1.ObjectMeta) string {
	var fields []string
	for _, entry := range meta.ManagedFields {
		if entry.Manager == manager && entry.FieldsV1 != nil {
			fields = append(fields, entry.FieldsV1.GetRawString())
		}
	}
	return strings.Join(fields, " ")
}

// intact checks that whatever is not part of a binding is as it was in the
// objects that still exist.
func (s *snapshot) intact() {
	s.f.t.Helper()
	now := s.f.snapshot()
	for name, old := range s.claims {
		if claim := now.claims[name]; claim != nil && claim.UID == old.UID {
			if diff := cmp.Diff(foreignOfClaim(old), foreignOfClaim(claim)); diff != "" {
				s.f.t.Errorf("claim %s was changed (-before +now):\n%s", name, diff)
			}
		}
	}
	for name, old := range s.volumes {
		if pv := now.volumes[name]; pv != nil && pv.UID == old.UID {
			if diff := cmp.Diff(foreignOfVolume(old), foreignOfVolume(pv)); diff != "" {
				s.f.t.Errorf("volume %s was changed (-before +now):\n%s", name, diff)
			}
			if old, ref := old.Spec.ClaimRef, pv.Spec.ClaimRef; old != nil && ref != nil && !sameOwner(old, ref) {
				s.f.t.Errorf("volume %s was taken from claim %s/%s (uid %q) and given to %s/%s (uid %q)",
					name, old.Namespace, old.Name, old.UID, ref.Namespace, ref.Name, ref.UID)
			}
		}
	}
}

// sameOwner tells whether a claimRef is still the same one: a missing uid may
// be filled in.
func sameOwner(old, now *v1.ObjectReference) bool {
	return old.Namespace == now.Namespace && old.Name == now.Name && (old.UID == "" || old.UID == now.UID)
}

// foreign is the part of an object that no binder and no controller may touch.
type foreign struct {
	Labels, Annotations map[string]string
	Finalizers          []string
	Owners              []metav1.OwnerReference
	Spec                any
}

func foreignOfClaim(claim *v1.PersistentVolumeClaim) foreign {
	spec := claim.Spec.DeepCopy()
	spec.VolumeName = ""
	return foreignOf(&claim.ObjectMeta, spec)
}

func foreignOfVolume(pv *v1.PersistentVolume) foreign {
	spec := pv.Spec.DeepCopy()
	spec.ClaimRef = nil
	return foreignOf(&pv.ObjectMeta, spec)
}

func foreignOf(meta *metav1.ObjectMeta, spec any) foreign {
	annotations := maps.Clone(meta.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "pv.kubernetes.io/") || key == volume.AnnSelectedNode ||
			key == volume.AnnStorageProvisioner || key == volume.AnnBetaStorageProvisioner
	})
	if len(annotations) == 0 {
		annotations = nil
	}
	var finalizers []string
	for _, name := range meta.Finalizers {
		if !strings.Contains(name, "kubernetes.io/") {
			finalizers = append(finalizers, name)
		}
	}
	slices.Sort(finalizers)
	return foreign{Labels: meta.Labels, Annotations: annotations, Finalizers: finalizers, Owners: meta.OwnerReferences, Spec: spec}
}

// binds asks for a bind that must succeed, and checks that it changed nothing
// but the binding.
func (f *fixture) binds(pod *v1.Pod, node string) {
	f.t.Helper()
	before := f.snapshot()
	f.mustBind(pod, node)
	before.intact()
}

// refuses asks for a bind that must fail before the first write.
func (f *fixture) refuses(pod *v1.Pod, node, code string, words ...string) string {
	f.t.Helper()
	before := f.snapshot()
	text := f.refused(pod, node, code, words...)
	before.unwritten()
	before.intact()
	return text
}

// boundTo checks which volume a claim is bound to; short is without the
// fixture's prefix.
func (f *fixture) boundTo(claim, short string) {
	f.t.Helper()
	if got := f.getClaim(claim).Spec.VolumeName; got != f.name(short) {
		f.t.Errorf("claim %s is bound to volume %s, want %s", claim, got, f.name(short))
	}
}
