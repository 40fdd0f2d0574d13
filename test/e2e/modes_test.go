package e2e_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// modeSets are all sets of access modes that the API allows; ReadWriteOncePod
// stands alone.
func modeSets() [][]v1.PersistentVolumeAccessMode {
	all := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany}
	sets := [][]v1.PersistentVolumeAccessMode{{v1.ReadWriteOncePod}}
	for bits := 1; bits < 1<<len(all); bits++ {
		var set []v1.PersistentVolumeAccessMode
		for i, mode := range all {
			if bits&(1<<i) != 0 {
				set = append(set, mode)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// short names a set, as in "rwo-rox".
func short(set []v1.PersistentVolumeAccessMode) string {
	names := map[v1.PersistentVolumeAccessMode]string{
		v1.ReadWriteOnce: "rwo", v1.ReadOnlyMany: "rox", v1.ReadWriteMany: "rwx", v1.ReadWriteOncePod: "rwop",
	}
	var parts []string
	for _, mode := range set {
		parts = append(parts, names[mode])
	}
	return strings.Join(parts, "-")
}

func within(small, large []v1.PersistentVolumeAccessMode) bool {
	for _, mode := range small {
		if !strings.Contains("-"+short(large)+"-", "-"+short([]v1.PersistentVolumeAccessMode{mode})+"-") {
			return false
		}
	}
	return true
}

// Every set of modes that a claim can ask for against every set that a volume
// can offer: the volume must offer all by name, and may offer more.
func TestS31_EveryPairOfAccessModes(t *testing.T) {
	t.Parallel()
	for _, offered := range modeSets() {
		t.Run("volumes offer "+short(offered), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			pods := map[string]*v1.Pod{}
			for _, asked := range modeSets() {
				name := short(asked)
				if within(asked, offered) { // one volume for each claim that may have one
					f.volume(newVolume(name, class, node, func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = offered }))
				}
				f.claim(newClaim(name, class, func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = asked }))
				pods[name] = f.pod(newPod(name, nobody, name))
			}
			answers := map[string]<-chan string{}
			for name, pod := range pods {
				answers[name] = f.start(pod, node)
			}
			for _, asked := range modeSets() {
				name := short(asked)
				text := f.answer(answers[name])
				if !within(asked, offered) {
					f.checkRefused(text, "NoVolume", "claim "+f.ns+"/"+name)
					f.untouched(name)
					continue
				}
				if text != "" {
					t.Fatalf("a claim for %s: %s", name, text)
				}
				f.checkBound(pods[name], node)
			}
		})
	}
}

func TestS32_VolumeModeThatIsNotGiven(t *testing.T) {
	t.Parallel()
	block, file := v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem
	offers := func(mode *v1.PersistentVolumeMode) pvOption {
		return func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = mode }
	}
	asks := func(mode *v1.PersistentVolumeMode) pvcOption {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = mode }
	}
	runMatching(t, map[string]matching{
		"no mode asked for, no mode given":    {map[string]pvOption{"nil": offers(nil), "block": offers(&block)}, asks(nil), "nil"},
		"no mode asked for, Filesystem given": {map[string]pvOption{"file": offers(&file), "block": offers(&block)}, asks(nil), "file"},
		"Filesystem asked for, no mode given": {map[string]pvOption{"nil": offers(nil), "block": offers(&block)}, asks(&file), "nil"},
		"Filesystem asked for, Block given":   {map[string]pvOption{"block": offers(&block)}, asks(&file), ""},
	})
}

// Volumes and claims of a VolumeAttributesClass belong together.
func TestAttributesClassesMustBeEqual(t *testing.T) {
	t.Parallel()
	offers := func(class string) pvOption {
		return func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disk.example", VolumeHandle: pv.Name}}
			if class != "" {
				pv.Spec.VolumeAttributesClassName = &class
			}
		}
	}
	asks := func(class string) pvcOption {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &class }
	}
	runMatching(t, map[string]matching{
		"both gold":                 {map[string]pvOption{"gold": offers("gold"), "none": offers("")}, asks("gold"), "gold"},
		"gold asked for, tin here":  {map[string]pvOption{"tin": offers("tin"), "none": offers("")}, asks("gold"), ""},
		"none asked for":            {map[string]pvOption{"gold": offers("gold"), "none": offers("")}, nil, "none"},
		"none asked for, gold here": {map[string]pvOption{"gold": offers("gold")}, nil, ""},
	})
}
