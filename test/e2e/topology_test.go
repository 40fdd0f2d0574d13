package e2e_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/prebind/prebind/test/build"
)

const (
	zone    = v1.LabelTopologyZone
	oldZone = v1.LabelFailureDomainBetaZone
)

// term is a node selector term of requirements that must all hold.
func term(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: requirements}
}

func needs(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// onField is a term that names the node itself.
func onField(name string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{needs("metadata.name", v1.NodeSelectorOpIn, name)}}
}

func TestNodeAffinityOfVolumes(t *testing.T) {
	t.Parallel()
	labels := map[string]string{zone: "a", "rack": "7", "size": "large"}
	tests := map[string]struct {
		terms []v1.NodeSelectorTerm
		fits  bool
	}{
		"its zone is one of several":        {[]v1.NodeSelectorTerm{build.In(zone, "c", "a")}, true},
		"its zone is another":               {[]v1.NodeSelectorTerm{build.In(zone, "b")}, false},
		"the zone only by the old label":    {[]v1.NodeSelectorTerm{build.In(oldZone, "a")}, false},
		"the second of two terms":           {[]v1.NodeSelectorTerm{build.In(zone, "b"), build.In("rack", "7")}, true},
		"none of two terms":                 {[]v1.NodeSelectorTerm{build.In(zone, "b"), build.In("rack", "8")}, false},
		"one of two requirements of a term": {[]v1.NodeSelectorTerm{term(needs(zone, v1.NodeSelectorOpIn, "a"), needs("rack", v1.NodeSelectorOpIn, "8"))}, false},
		"both requirements of a term":       {[]v1.NodeSelectorTerm{term(needs(zone, v1.NodeSelectorOpIn, "a"), needs("rack", v1.NodeSelectorOpIn, "7"))}, true},
		"NotIn, of another value":           {[]v1.NodeSelectorTerm{term(needs(zone, v1.NodeSelectorOpNotIn, "b"))}, true},
		"NotIn, of its value":               {[]v1.NodeSelectorTerm{term(needs(zone, v1.NodeSelectorOpNotIn, "a"))}, false},
		"NotIn, of a label that it lacks":   {[]v1.NodeSelectorTerm{term(needs("gpu", v1.NodeSelectorOpNotIn, "yes"))}, true},
		"Exists":                            {[]v1.NodeSelectorTerm{term(needs("rack", v1.NodeSelectorOpExists))}, true},
		"Exists, of a label that it lacks":  {[]v1.NodeSelectorTerm{term(needs("gpu", v1.NodeSelectorOpExists))}, false},
		"DoesNotExist":                      {[]v1.NodeSelectorTerm{term(needs("gpu", v1.NodeSelectorOpDoesNotExist))}, true},
		"Gt, and it is more":                {[]v1.NodeSelectorTerm{term(needs("rack", v1.NodeSelectorOpGt, "6"))}, true},
		"Gt, and it is as much":             {[]v1.NodeSelectorTerm{term(needs("rack", v1.NodeSelectorOpGt, "7"))}, false},
		"Lt, compared as a number":          {[]v1.NodeSelectorTerm{term(needs("rack", v1.NodeSelectorOpLt, "10"))}, true},
		"Gt, of a label that is no number":  {[]v1.NodeSelectorTerm{term(needs("size", v1.NodeSelectorOpGt, "1"))}, false},
		// Fields are not looked at, neither by kube-scheduler nor by the PV
		// controller nor by kubelets: a term of fields alone holds everywhere.
		"a term of fields alone":               {[]v1.NodeSelectorTerm{onField("elsewhere")}, true},
		"a term of fields, and its zone":       {[]v1.NodeSelectorTerm{{MatchExpressions: build.In(zone, "a").MatchExpressions, MatchFields: onField("elsewhere").MatchFields}}, true},
		"a term of fields, and another's zone": {[]v1.NodeSelectorTerm{{MatchExpressions: build.In(zone, "b").MatchExpressions, MatchFields: onField("elsewhere").MatchFields}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", labels)
			class := f.class(newLocalClass("local"))
			f.volume(newVolume("pv", class, "", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity.Required.NodeSelectorTerms = tc.terms }))
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			if tc.fits {
				f.binds(pod, node)
			} else {
				f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/data", "node(s) didn't find available persistent volumes to bind", node)
			}
		})
	}
}

func TestVolumesWithoutNodeAffinity(t *testing.T) {
	t.Parallel()
	tests := map[string]pvOption{
		"a network volume is used everywhere": func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "net.example", VolumeHandle: "1"}}
		},
		// Zone labels of the volume itself are the business of the scheduler's
		// VolumeZone plugin, which has run before the bind call.
		"zone labels of the volume do not decide": func(pv *v1.PersistentVolume) {
			pv.Labels = map[string]string{zone: "b", oldZone: "b"}
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nfs.example", Path: "/"}}
		},
	}
	for name, option := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			a, b := f.node("a", map[string]string{zone: "a"}), f.node("b", nil)
			class := f.class(newLocalClass("net"))
			f.volume(newVolume("net", class, "", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = nil; option(pv) }))
			f.claim(newClaim("data", class))
			f.binds(f.pod(newPod("one", nobody, "data")), a)
			f.binds(f.pod(newPod("two", nobody, "data")), b)
		})
	}
}

func TestS22_ProvisionersAreGivenTheNodeName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.node("n1.example", map[string]string{v1.LabelHostname: f.name("n1")})
	f.claim(newClaim("data", f.class(newClass("dynamic", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer))))
	pod := f.pod(newPod("web", nobody, "data"))
	f.binds(pod, node)
	if got := f.selectedNode("data"); got != node {
		t.Errorf("selected-node is %q, want the name %q", got, node)
	}
}

func TestAllowedTopologies(t *testing.T) {
	t.Parallel()
	allow := func(pairs ...string) v1.TopologySelectorTerm {
		var term v1.TopologySelectorTerm
		for i := 0; i < len(pairs); i += 2 {
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: pairs[i], Values: []string{pairs[i+1]}})
		}
		return term
	}
	tests := map[string]struct {
		terms []v1.TopologySelectorTerm
		fits  bool
	}{
		"the node's zone is allowed":        {[]v1.TopologySelectorTerm{allow(zone, "a")}, true},
		"the node's zone is not allowed":    {[]v1.TopologySelectorTerm{allow(zone, "b")}, false},
		"the second term allows it":         {[]v1.TopologySelectorTerm{allow(zone, "b"), allow("rack", "7")}, true},
		"a term must hold as a whole":       {[]v1.TopologySelectorTerm{allow(zone, "a", "rack", "8")}, false},
		"the node lacks the label":          {[]v1.TopologySelectorTerm{allow("gpu", "yes")}, false},
		"the hostname is not the node name": {[]v1.TopologySelectorTerm{allow(v1.LabelHostname, "h7")}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", map[string]string{zone: "a", "rack": "7", v1.LabelHostname: "h7"})
			class := f.class(newClass("dynamic", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer, func(class *storagev1.StorageClass) { class.AllowedTopologies = tc.terms }))
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			if tc.fits {
				f.binds(pod, node)
				return
			}
			f.refuses(pod, node, "NoVolume", "claim "+f.ns+"/data (class "+class+")", "allowedTopologies", node)
			// A volume that is there already may be used anywhere.
			f.volume(newVolume("static", class, "h7"))
			f.binds(pod, node)
			f.boundTo("data", "static")
		})
	}
}
