package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// Names of the indices.
const (
	// indexChanged holds nothing; it feeds the indices of our own.
	indexChanged = "changed"
	// indexClaim: namespace/name of a claim -> volumes whose claimRef names it,
	// and unassigned pods that use it.
	indexClaim = "claim"
)

// Caches are the watch-fed copies of what a bind call reads. Objects in them
// are shared, trimmed (see trim.go) and read-only. The cache of pods holds
// unassigned pods only, so that its size follows the queue and not the
// cluster.
type Caches struct {
	Pods       corelisters.PodLister
	Nodes      corelisters.NodeLister
	Claims     corelisters.PersistentVolumeClaimLister
	Volumes    corelisters.PersistentVolumeLister
	Classes    storagelisters.StorageClassLister
	CSINodes   storagelisters.CSINodeLister
	CSIDrivers storagelisters.CSIDriverLister
	Capacities storagelisters.CSIStorageCapacityLister

	seen     seenPods
	free     *freeIndex
	room     *capacityIndex
	factory  informers.SharedInformerFactory
	informer map[string]cache.SharedIndexInformer // by resource name
	trims    map[string]cache.TransformFunc       // by resource name; trimMeta for the others
}

// NewCaches declares the watches; nothing is asked of the API server before
// Start.
func NewCaches(client kubernetes.Interface) (*Caches, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimMeta))
	core, storage := factory.Core().V1(), factory.Storage().V1()
	pods := factory.InformerFor(&v1.Pod{}, newUnassignedPodInformer)
	c := &Caches{
		Pods:       corelisters.NewPodLister(pods.GetIndexer()),
		Nodes:      core.Nodes().Lister(),
		Claims:     core.PersistentVolumeClaims().Lister(),
		Volumes:    core.PersistentVolumes().Lister(),
		Classes:    storage.StorageClasses().Lister(),
		CSINodes:   storage.CSINodes().Lister(),
		CSIDrivers: storage.CSIDrivers().Lister(),
		Capacities: storage.CSIStorageCapacities().Lister(),
		factory:    factory,
		informer: map[string]cache.SharedIndexInformer{
			"pods":                   pods,
			"nodes":                  core.Nodes().Informer(),
			"persistentvolumeclaims": core.PersistentVolumeClaims().Informer(),
			"persistentvolumes":      core.PersistentVolumes().Informer(),
			"storageclasses":         storage.StorageClasses().Informer(),
			"csinodes":               storage.CSINodes().Informer(),
			"csidrivers":             storage.CSIDrivers().Informer(),
			"csistoragecapacities":   storage.CSIStorageCapacities().Informer(),
		},
	}
	c.free, c.room = newFreeIndex(c.volume), newCapacityIndex(c.capacity)
	c.free.cachedNode = c.node
	alike := &common{}
	c.trims = map[string]cache.TransformFunc{
		"pods":                   trimPod,
		"nodes":                  trimNode,
		"persistentvolumeclaims": alike.trimClaim,
		"persistentvolumes":      alike.trimVolume,
	}
	for name, transform := range c.trims {
		if err := c.informer[name].SetTransform(transform); err != nil {
			return nil, fmt.Errorf("setting the transform of %s: %w", name, err)
		}
	}
	if err := pods.AddIndexers(cache.Indexers{indexClaim: usedClaims}); err != nil {
		return nil, fmt.Errorf("indexing pods: %w", err)
	}
	if err := c.informer["nodes"].AddIndexers(cache.Indexers{indexChanged: c.noteChange}); err != nil {
		return nil, fmt.Errorf("indexing nodes: %w", err)
	}
	if err := c.informer["persistentvolumes"].AddIndexers(cache.Indexers{indexChanged: c.noteChange, indexClaim: indexClaimed}); err != nil {
		return nil, fmt.Errorf("indexing volumes: %w", err)
	}
	if err := c.informer["csistoragecapacities"].AddIndexers(cache.Indexers{indexChanged: c.noteChange}); err != nil {
		return nil, fmt.Errorf("indexing storage capacities: %w", err)
	}
	return c, nil
}

func newUnassignedPodInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	unassigned := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)),
	).String()
	return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(options *metav1.ListOptions) { options.FieldSelector = unassigned })
}

// Start begins watching. It returns at once; Synced tells the progress.
func (c *Caches) Start(ctx context.Context) { c.factory.StartWithContext(ctx) }

// Wait blocks until every watch goroutine has ended, after Start's context.
func (c *Caches) Wait() { c.factory.Shutdown() }

// Synced returns one function per cache, by resource name, that tells whether
// the cache has seen everything that existed when the watch began.
func (c *Caches) Synced() map[string]func() bool {
	synced := make(map[string]func() bool, len(c.informer))
	for name, informer := range c.informer {
		synced[name] = informer.HasSynced
	}
	return synced
}

// Objects returns how many objects each cache holds, by resource name. A cache does
// not know its size: it has a list of its keys made, which share their texts with it.
func (c *Caches) Objects() map[string]int {
	objects := make(map[string]int, len(c.informer))
	for name, informer := range c.informer {
		objects[name] = len(informer.GetStore().ListKeys())
	}
	return objects
}

// noteChange tells our own index of an object that comes, changes or goes. The
// cache calls it for the old and the new one, and is locked meanwhile: who sees
// the change in the cache sees it in the index too.
func (c *Caches) noteChange(obj any) ([]string, error) {
	switch o := obj.(type) {
	case *v1.PersistentVolume:
		c.free.changed(o.Name)
	case *storagev1.CSIStorageCapacity:
		c.room.changed(o.Namespace + "/" + o.Name)
	case *v1.Node:
		c.free.nodeChanged(o.Name)
	}
	return nil, nil
}

func indexClaimed(obj any) ([]string, error) {
	pv, ok := obj.(*v1.PersistentVolume)
	if !ok || pv.Spec.ClaimRef == nil {
		return nil, nil
	}
	return []string{pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}, nil
}

// claim returns the cached claim, or nil.
func (c *Caches) claim(namespace, name string) *v1.PersistentVolumeClaim {
	claim, err := c.Claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil
	}
	return claim
}

// node returns the cached node, or nil.
func (c *Caches) node(name string) *v1.Node {
	node, err := c.Nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// allVolumes returns every cached volume.
func (c *Caches) allVolumes() ([]*v1.PersistentVolume, error) {
	pvs, err := c.Volumes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing cached volumes: %w", err)
	}
	return pvs, nil
}

// volume returns the cached volume, or nil.
func (c *Caches) volume(name string) *v1.PersistentVolume {
	pv, err := c.Volumes.Get(name)
	if err != nil {
		return nil
	}
	return pv
}

// capacity returns the cached storage capacity of the namespace/name, or nil.
func (c *Caches) capacity(key string) *storagev1.CSIStorageCapacity {
	namespace, name, _ := strings.Cut(key, "/")
	capacity, err := c.Capacities.CSIStorageCapacities(namespace).Get(name)
	if err != nil {
		return nil
	}
	return capacity
}

func usedClaims(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	return ClaimNames(pod), nil
}

// othersUse tells whether an unassigned pod other than this one uses the claim.
func (c *Caches) othersUse(pod *v1.Pod, claim *v1.PersistentVolumeClaim) (bool, error) {
	keys, err := c.informer["pods"].GetIndexer().IndexKeys(indexClaim, claim.Namespace+"/"+claim.Name)
	if err != nil {
		return false, fmt.Errorf("listing cached pods by claim: %w", err)
	}
	return slices.ContainsFunc(keys, func(key string) bool { return key != pod.Namespace+"/"+pod.Name }), nil
}

// claimedVolumes returns the cached volumes whose claimRef names the claim, in
// the order of their names.
func (c *Caches) claimedVolumes(namespace, name string) ([]*v1.PersistentVolume, error) {
	objs, err := c.informer["persistentvolumes"].GetIndexer().ByIndex(indexClaim, namespace+"/"+name)
	if err != nil {
		return nil, fmt.Errorf("listing cached volumes by claim: %w", err)
	}
	var claimed []*v1.PersistentVolume
	for _, obj := range objs {
		if pv, ok := obj.(*v1.PersistentVolume); ok {
			claimed = append(claimed, pv)
		}
	}
	slices.SortFunc(claimed, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	return claimed, nil
}
