package e2e_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/provisioner"
)

// capacityObject is what a driver reports about one segment of its storage.
type capacityObject struct {
	free, largest string // quantities; "" for none given
	nodes         *metav1.LabelSelector
	otherClass    bool
}

func (f *fixture) capacity(class string, c capacityObject) {
	f.t.Helper()
	made := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{GenerateName: "c-", Namespace: f.ns},
		StorageClassName: class, NodeTopology: c.nodes,
	}
	if c.otherClass {
		made.StorageClassName = "other"
	}
	if c.free != "" {
		made.Capacity = new(resource.MustParse(c.free))
	}
	if c.largest != "" {
		made.MaximumVolumeSize = new(resource.MustParse(c.largest))
	}
	_, err := f.client.StorageV1().CSIStorageCapacities(f.ns).Create(f.ctx, made, metav1.CreateOptions{})
	f.must(err)
}

// capacityDriver runs a provisioner that asks for capacity checks, and a
// prebind that knows so from its start.
func capacityDriver(t *testing.T) (driver string, own *controlplane.Prebind) {
	t.Helper()
	f := newFixture(t)
	disks, err := provisioner.Start(f.ctx, shared.cp, provisioner.Options{Name: f.name("csi")})
	f.must(err)
	t.Cleanup(disks.Stop)
	drivers := f.client.StorageV1().CSIDrivers()
	_, err = drivers.Create(f.ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: disks.Name()}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)},
	}, metav1.CreateOptions{})
	f.must(err)
	f.cleanup(func(ctx context.Context) error { return drivers.Delete(ctx, disks.Name(), metav1.DeleteOptions{}) })
	return disks.Name(), shared.startPrebind(t, controlplane.PrebindOptions{Name: f.name("capacity")})
}

// bindBy asks another prebind than the shared one.
func (f *fixture) bindBy(p *controlplane.Prebind, pod *v1.Pod, node string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	text, err := postBind(ctx, p.URL(), bindArgs(pod, node))
	f.must(err)
	return text
}

// bindsBy asks again while the watch has not shown the capacity.
func (f *fixture) bindsBy(p *controlplane.Prebind, pod *v1.Pod, node string) {
	f.t.Helper()
	f.eventually("pod "+pod.Name+" is bound", func() bool {
		text := f.bindBy(p, pod, node)
		if text != "" {
			f.checkRefused(text, "NoCapacity")
		}
		return text == ""
	})
	f.checkBound(pod, node)
}

func TestStorageCapacity(t *testing.T) {
	driver, own := capacityDriver(t)
	here := &metav1.LabelSelector{MatchLabels: map[string]string{zone: "a"}}
	there := &metav1.LabelSelector{MatchLabels: map[string]string{zone: "b"}}
	tests := map[string]struct {
		reported []capacityObject
		fits     bool
	}{
		"nothing is reported":                      {nil, false},
		"there is enough":                          {[]capacityObject{{free: "10Gi", nodes: here}}, true},
		"there is exactly enough":                  {[]capacityObject{{free: "1Gi", nodes: here}}, true},
		"there is too little":                      {[]capacityObject{{free: "1023Mi", nodes: here}}, false},
		"there is enough, but not in one piece":    {[]capacityObject{{free: "10Gi", largest: "512Mi", nodes: here}}, false},
		"little is free, but volumes may be large": {[]capacityObject{{free: "1Mi", largest: "1Gi", nodes: here}}, true},
		"there is enough elsewhere":                {[]capacityObject{{free: "10Gi", nodes: there}}, false},
		"the second segment has enough":            {[]capacityObject{{free: "1Mi", nodes: here}, {free: "5Gi", nodes: here}}, true},
		"two segments have half each":              {[]capacityObject{{free: "512Mi", nodes: here}, {free: "512Mi", nodes: here}}, false},
		"it is reported for no node":               {[]capacityObject{{free: "10Gi"}}, false},
		"it is reported for all nodes":             {[]capacityObject{{free: "10Gi", nodes: &metav1.LabelSelector{}}}, true},
		"a segment of unknown size":                {[]capacityObject{{nodes: here}}, false},
		"another class has enough":                 {[]capacityObject{{free: "10Gi", nodes: here, otherClass: true}}, false},
		"the nodes are picked by an expression":    {[]capacityObject{{free: "10Gi", nodes: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: zone, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}}}}}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			node := f.node("a", map[string]string{zone: "a"})
			class := f.class(newClass("csi", driver, waits))
			for _, c := range tc.reported {
				f.capacity(class, c)
			}
			f.claim(newClaim("data", class))
			pod := f.pod(newPod("web", nobody, "data"))
			if tc.fits {
				f.bindsBy(own, pod, node)
				return
			}
			before := f.snapshot()
			f.checkRefused(f.bindBy(own, pod, node), "NoCapacity", "claim "+f.ns+"/data (class "+class+")", "node(s) did not have enough free storage", driver)
			before.unwritten()
			f.untouched("data")
			// It comes later; the same call then works.
			f.capacity(class, capacityObject{free: "2Gi", nodes: here})
			f.bindsBy(own, pod, node)
		})
	}
	t.Run("a claim that was handed over already is not asked for capacity", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		node := f.node("a", nil)
		f.claim(newClaim("data", f.class(newClass("csi", driver, waits)), func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": node}
		}))
		pod := f.pod(newPod("web", nobody, "data"))
		if text := f.bindBy(own, pod, node); text != "" {
			t.Fatal(text)
		}
		f.checkBound(pod, node)
	})
	t.Run("a static volume needs no capacity", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		node := f.node("a", nil)
		class := f.class(newClass("csi", driver, waits))
		f.volume(newVolume("pv", class, node))
		f.claim(newClaim("data", class))
		pod := f.pod(newPod("web", nobody, "data"))
		f.bindsBy(own, pod, node)
		f.boundTo("data", "pv")
		if node := f.selectedNode("data"); node != "" {
			t.Errorf("selected-node %s was written for a static claim", node)
		}
	})
}
