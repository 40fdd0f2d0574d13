package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/prebind/prebind/internal/fault"
)

const (
	// loadPage is how many objects are asked for at once.
	loadPage = 2000
	// loadParallel is how many single objects are asked for at once.
	loadParallel = 8
)

// Lack is something that could not be read because RBAC refuses it.
type Lack struct {
	Verb, Resource string
	// Name of the object; "" is all of the resource.
	Name string
	Err  error
}

// Load fills the caches once with what [Prebinder.Explain] needs to know of the
// pod's claims, for a program that gives one answer and ends: Start must not be
// called as well. Single objects are asked for where the pod names them, lists
// in pages where it does not. What RBAC refuses is passed over and told. Any other
// error is a fault.
func (c *Caches) Load(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) ([]Lack, error) {
	l := &loader{caches: c, client: client}
	claims, err := l.claims(ctx, pod)
	if err != nil {
		return nil, err
	}
	capacities, err := l.classes(ctx, claims)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.volumes(ctx, claims) })
	if capacities {
		group.Go(func() error { return l.capacities(ctx) })
	}
	err = group.Wait()
	return l.lacks, err
}

// LoadNodes does as Load, which comes before it, with the node, or with all nodes
// if the name is empty. A node that does not exist is no error.
func (c *Caches) LoadNodes(ctx context.Context, client kubernetes.Interface, name string) ([]Lack, error) {
	l := &loader{caches: c, client: client}
	migratable, err := c.anyMigratable()
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	nodes, csiNodes := client.CoreV1().Nodes(), client.StorageV1().CSINodes()
	group.Go(func() error { return loadSome(ctx, l, "nodes", name, nodes.Get, nodes.List) })
	if migratable { // else nothing that they say counts
		group.Go(func() error { return loadSome(ctx, l, "csinodes", name, csiNodes.Get, csiNodes.List) })
	}
	err = group.Wait()
	return l.lacks, err
}

// anyMigratable tells whether a volume that is cached is one of an in-tree plugin.
func (c *Caches) anyMigratable() (bool, error) {
	translator := csitranslation.New()
	pvs, err := c.allVolumes()
	return slices.ContainsFunc(pvs, translator.IsPVMigratable), err
}

// loader puts objects into caches that are not started.
type loader struct {
	caches *Caches
	client kubernetes.Interface

	mu    sync.Mutex
	lacks []Lack
}

func (l *loader) lack(verb, resource, name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacks = append(l.lacks, Lack{verb, resource, name, err})
}

// put does what the informer does with an object.
func (l *loader) put(resource string, obj runtime.Object) error {
	trim, own := l.caches.trims[resource]
	if !own {
		trim = trimMeta
	}
	trimmed, err := trim(obj)
	if err != nil {
		return err
	}
	return l.caches.informer[resource].GetIndexer().Add(trimmed)
}

// loadOne asks for an object by its name. What does not exist is left out; so is what
// cannot exist, since names come from annotations and other free text.
func loadOne[T runtime.Object](ctx context.Context, l *loader, resource, name string, get func(context.Context, string, metav1.GetOptions) (T, error)) error {
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil
	}
	obj, err := get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		l.lack("get", resource, name, err)
		return nil
	case err != nil:
		return fault.FromAPI(err, "get", resource, name)
	}
	return l.put(resource, obj)
}

// loadAll asks for objects by their names.
func loadAll[T runtime.Object](ctx context.Context, l *loader, resource string, names []string, get func(context.Context, string, metav1.GetOptions) (T, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadParallel)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		group.Go(func() error { return loadOne(ctx, l, resource, name, get) })
	}
	return group.Wait()
}

// each lists a resource page by page.
func (l *loader) each(ctx context.Context, resource string, list pager.ListPageFunc) error {
	pages := pager.New(list)
	pages.PageSize = loadPage
	err := pages.EachListItemWithAlloc(ctx, metav1.ListOptions{}, func(obj runtime.Object) error { return l.put(resource, obj) })
	switch {
	case apierrors.IsForbidden(err):
		l.lack("list", resource, "", err)
		return nil
	case err != nil:
		return fault.New(fault.APIError, "list %s: %w", resource, err)
	}
	return nil
}

// loadSome asks for the object of this name, or for all if the name is empty.
func loadSome[T, L runtime.Object](
	ctx context.Context, l *loader, resource, name string,
	get func(context.Context, string, metav1.GetOptions) (T, error), list func(context.Context, metav1.ListOptions) (L, error),
) error {
	if name != "" {
		return loadOne(ctx, l, resource, name, get)
	}
	return l.each(ctx, resource, listing(list))
}

// claims returns those of the pod that exist.
func (l *loader) claims(ctx context.Context, pod *v1.Pod) (claims []*v1.PersistentVolumeClaim, err error) {
	var names []string
	for _, c := range claimNames(pod) {
		names = append(names, c.Name)
	}
	if err := loadAll(ctx, l, "persistentvolumeclaims", names, l.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get); err != nil {
		return nil, err
	}
	for _, c := range claimNames(pod) {
		if claim := l.caches.claim(pod.Namespace, c.Name); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// classes loads the claims' classes and, for those without a volume, the drivers. It
// tells whether any driver asks for capacity checks.
func (l *loader) classes(ctx context.Context, claims []*v1.PersistentVolumeClaim) (capacities bool, err error) {
	var names, drivers []string
	for _, claim := range claims {
		names = append(names, volume.GetPersistentVolumeClaimClass(claim))
	}
	if err := loadAll(ctx, l, "storageclasses", names, l.client.StorageV1().StorageClasses().Get); err != nil {
		return false, err
	}
	for _, claim := range claims {
		class, err := l.caches.Classes.Get(volume.GetPersistentVolumeClaimClass(claim))
		if err == nil && claim.Spec.VolumeName == "" && class.Provisioner != volume.NotSupportedProvisioner {
			drivers = append(drivers, class.Provisioner)
		}
	}
	if err := loadAll(ctx, l, "csidrivers", drivers, l.client.StorageV1().CSIDrivers().Get); err != nil {
		return false, err
	}
	return slices.ContainsFunc(drivers, func(name string) bool {
		driver, err := l.caches.CSIDrivers.Get(name)
		return err == nil && (&ClaimFacts{Driver: driver}).checksCapacity()
	}), nil
}

// volumes loads all, if a claim may have to choose, else those that the claims name.
func (l *loader) volumes(ctx context.Context, claims []*v1.PersistentVolumeClaim) error {
	pvs := l.client.CoreV1().PersistentVolumes()
	var names []string
	for _, claim := range claims {
		if claim.Spec.VolumeName != "" {
			names = append(names, claim.Spec.VolumeName)
		}
	}
	if len(names) < len(claims) {
		err := l.each(ctx, "persistentvolumes", listing(pvs.List))
		if err != nil {
			return err
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return l.caches.volume(name) != nil })
	return loadAll(ctx, l, "persistentvolumes", names, pvs.Get)
}

func (l *loader) capacities(ctx context.Context) error {
	return l.each(ctx, "csistoragecapacities", listing(l.client.StorageV1().CSIStorageCapacities(metav1.NamespaceAll).List))
}

// listing makes a client's List one of objects of any kind.
func listing[T runtime.Object](list func(context.Context, metav1.ListOptions) (T, error)) pager.ListPageFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}

// String reads "list persistentvolumes" or "get nodes node-7".
func (l Lack) String() string {
	return strings.TrimSpace(fmt.Sprint(l.Verb, " ", l.Resource, " ", l.Name))
}
