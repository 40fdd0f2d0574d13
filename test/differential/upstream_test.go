package differential

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// upstream is kube-scheduler's VolumeBinding plugin over stores that are
// filled directly. Nothing is ever assumed or reserved, so it sees the state
// and nothing else.
type upstream struct {
	plugin *volumebinding.VolumeBinding
	found  *volumebinding.PodVolumes // by the last call of Filter
	state  *state

	nodes, csiNodes, classes, drivers, capacities, claims *store
	volumes                                               *orderedStore
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{
		nodes: newStore(), csiNodes: newStore(), classes: newStore(), drivers: newStore(), capacities: newStore(), claims: newStore(),
		volumes: &orderedStore{store: newStore()},
	}
	features := feature.Features{EnableVolumeAttributesClass: true, EnableStorageCapacityScoring: true}
	binder, err := volumebinding.NewVolumeBinder(
		klog.Background(), nil, features,
		podInformer{}, nodeInformer{u.nodes}, csiNodeInformer{u.csiNodes}, claimInformer{u.claims}, volumeInformer{u.volumes}, classInformer{u.classes},
		volumebinding.CapacityCheck{CSIDriverInformer: driverInformer{u.drivers}, CSIStorageCapacityInformer: capacityInformer{u.capacities}},
		time.Second,
	)
	if err != nil {
		t.Fatal(err)
	}
	u.plugin = newPlugin(t, features)
	u.plugin.Binder = spy{SchedulerVolumeBinder: binder, found: &u.found}
	u.plugin.PVCLister = claimInformer{u.claims}.Lister()
	return u
}

// spy hands out what Filter keeps to itself.
type spy struct {
	volumebinding.SchedulerVolumeBinder
	found **volumebinding.PodVolumes
}

func (s spy) FindPodVolumes(logger klog.Logger, pod *v1.Pod, claims *volumebinding.PodVolumeClaims, node *v1.Node) (*volumebinding.PodVolumes, volumebinding.ConflictReasons, error) {
	found, reasons, err := s.SchedulerVolumeBinder.FindPodVolumes(logger, pod, claims, node)
	*s.found = found
	return found, reasons, err
}

// load replaces the state.
func (u *upstream) load(s *state) error {
	u.state = s
	for _, fill := range []func() error{
		func() error { return replace(u.nodes, s.nodes) },
		func() error { return replace(u.csiNodes, s.csiNodes) },
		func() error { return replace(u.classes, s.classes) },
		func() error { return replace(u.drivers, s.drivers) },
		func() error { return replace(u.capacities, s.capacities) },
		func() error { return replace(u.claims, s.claims) },
		func() error { return replace(u.volumes.store, s.volumes) },
	} {
		if err := fill(); err != nil {
			return fmt.Errorf("filling kube-scheduler's caches: %w", err)
		}
	}
	return nil
}

// says asks whether the pod fits the node: PreFilter, then Filter. Among
// volumes that are equally good kube-scheduler takes the one that its cache
// happens to list first; order, names of volumes, decides which that is.
func (u *upstream) says(ctx context.Context, pod *v1.Pod, node *v1.Node, order []string) verdict {
	u.volumes.order, u.found = order, nil
	cycle := framework.NewCycleState()
	_, status := u.plugin.PreFilter(ctx, cycle, pod, nil)
	if status.IsSkip() {
		return verdict{claims: map[string]answer{}}
	}
	if status.IsSuccess() {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		status = u.plugin.Filter(ctx, cycle, pod, info)
	}
	if !status.IsSuccess() {
		return refusal(status)
	}
	v := verdict{claims: map[string]answer{}}
	for _, binding := range u.found.StaticBindings {
		claim, pv := chosen(binding)
		chosen := sized(u.state.volume(pv))
		if first, twice := v.claims[claim]; twice {
			chosen = first.volume + " and " + chosen
		}
		v.claims[claim] = answer{what: static, volume: chosen}
	}
	for _, provision := range u.found.DynamicProvisions {
		v.claims[provision.PVC.Name] = answer{what: dynamic}
	}
	// It keeps no list of the bound ones: they are what is left.
	for i := range pod.Spec.Volumes {
		m, ok := mentionOf(pod, &pod.Spec.Volumes[i])
		if _, listed := v.claims[m.name]; ok && !listed {
			v.claims[m.name] = answer{what: bound, volume: sized(u.state.volume(u.state.claim(m.name).Spec.VolumeName))}
		}
	}
	return v
}

func refusal(status *fwk.Status) verdict {
	v := verdict{}
	for _, text := range status.Reasons() {
		r := answer{what: what("not known: " + text), text: text}
		for _, known := range reasons() {
			if !known.ours && strings.Contains(text, known.words) {
				r.what = known.what
				break
			}
		}
		v.refused = append(v.refused, r)
	}
	return v
}

// chosen reads the names from a static binding, whose fields are private.
func chosen(binding *volumebinding.BindingInfo) (claim, pv string) {
	fields := reflect.ValueOf(binding).Elem()
	name := func(field string) string { return fields.FieldByName(field).Elem().FieldByName("Name").String() }
	return name("pvc"), name("pv")
}

// store is an informer's store without the informer.
type store struct{ cache.Indexer }

func newStore() *store {
	return &store{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

func replace[T any](s *store, objects []T) error {
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return s.Replace(items, "")
}

// orderedStore lists the volumes in a given order; those that it does not
// name follow by name.
type orderedStore struct {
	*store
	order []string
}

// ByIndex implements cache.Indexer.
func (s *orderedStore) ByIndex(index, value string) ([]any, error) {
	objects, err := s.store.ByIndex(index, value)
	rank := func(name string) int {
		if i := slices.Index(s.order, name); i >= 0 {
			return i
		}
		return len(s.order)
	}
	slices.SortFunc(objects, func(a, b any) int {
		x, y := a.(*v1.PersistentVolume).Name, b.(*v1.PersistentVolume).Name
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
	return objects, err
}

// informer is what the binder wants to see of an informer. It listens to
// changes only to drop what it has assumed, which is nothing, so nobody is
// told. Any other method is a nil call.
type informer struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

// GetIndexer implements cache.SharedIndexInformer.
func (i informer) GetIndexer() cache.Indexer { return i.indexer }

// AddEventHandler implements cache.SharedIndexInformer.
func (i informer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

type (
	podInformer      struct{ coreinformers.PodInformer }
	nodeInformer     struct{ *store }
	csiNodeInformer  struct{ *store }
	classInformer    struct{ *store }
	driverInformer   struct{ *store }
	capacityInformer struct{ *store }
	claimInformer    struct{ *store }
	volumeInformer   struct{ *orderedStore }
)

var (
	_ coreinformers.PodInformer                   = podInformer{}
	_ coreinformers.NodeInformer                  = nodeInformer{}
	_ coreinformers.PersistentVolumeClaimInformer = claimInformer{}
	_ coreinformers.PersistentVolumeInformer      = volumeInformer{}
	_ storageinformers.CSINodeInformer            = csiNodeInformer{}
	_ storageinformers.StorageClassInformer       = classInformer{}
	_ storageinformers.CSIDriverInformer          = driverInformer{}
	_ storageinformers.CSIStorageCapacityInformer = capacityInformer{}
)

func (s *store) Informer() cache.SharedIndexInformer        { return informer{indexer: s.Indexer} }
func (s *orderedStore) Informer() cache.SharedIndexInformer { return informer{indexer: s} }

func (podInformer) Lister() corelisters.PodLister     { return nil }
func (i nodeInformer) Lister() corelisters.NodeLister { return corelisters.NewNodeLister(i) }
func (i claimInformer) Lister() corelisters.PersistentVolumeClaimLister {
	return corelisters.NewPersistentVolumeClaimLister(i)
}

func (i volumeInformer) Lister() corelisters.PersistentVolumeLister {
	return corelisters.NewPersistentVolumeLister(i)
}

func (i csiNodeInformer) Lister() storagelisters.CSINodeLister {
	return storagelisters.NewCSINodeLister(i)
}

func (i classInformer) Lister() storagelisters.StorageClassLister {
	return storagelisters.NewStorageClassLister(i)
}

func (i driverInformer) Lister() storagelisters.CSIDriverLister {
	return storagelisters.NewCSIDriverLister(i)
}

func (i capacityInformer) Lister() storagelisters.CSIStorageCapacityLister {
	return storagelisters.NewCSIStorageCapacityLister(i)
}
