package differential

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/prebind/prebind/volumes"
)

// lagLimit is how long prebind's caches may take to show a change: far more
// than they ever need.
const lagLimit = time.Minute

// object is what a watch carries.
type object interface {
	kruntime.Object
	metav1.Object
}

// feed is the watch of one resource. It stays open for the whole test, and
// turns one state into the next by the events that an API server would send.
type feed struct {
	events chan watch.Event
	shown  map[string]object
	// cached returns what prebind's cache has under the key.
	cached func(namespace, name string) (object, error)
}

// ResultChan implements watch.Interface.
func (f *feed) ResultChan() <-chan watch.Event { return f.events }

// Stop implements watch.Interface.
func (f *feed) Stop() {}

// caches are prebind's own caches, informers and all, with feeds in place of
// an API server.
type caches struct {
	*volumes.Caches
	client *fake.Clientset
	feeds  map[string]*feed // by resource
	next   int              // resourceVersion
}

func newCaches() (*caches, error) {
	c := &caches{client: fake.NewClientset(), feeds: map[string]*feed{}, next: 1}
	c.client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		f, ok := c.feeds[action.GetResource().Resource]
		if !ok {
			return true, watch.NewFake(), nil // pods: handed in directly
		}
		return true, f, nil
	})
	var err error
	if c.Caches, err = volumes.NewCaches(c.client); err != nil {
		return nil, err
	}
	add(c, "nodes", func(_, name string) (object, error) { return c.Nodes.Get(name) })
	add(c, "csinodes", func(_, name string) (object, error) { return c.CSINodes.Get(name) })
	add(c, "storageclasses", func(_, name string) (object, error) { return c.Classes.Get(name) })
	add(c, "csidrivers", func(_, name string) (object, error) { return c.CSIDrivers.Get(name) })
	add(c, "persistentvolumes", func(_, name string) (object, error) { return c.Volumes.Get(name) })
	add(c, "csistoragecapacities", func(namespace, name string) (object, error) {
		return c.Capacities.CSIStorageCapacities(namespace).Get(name)
	})
	add(c, "persistentvolumeclaims", func(namespace, name string) (object, error) {
		return c.Claims.PersistentVolumeClaims(namespace).Get(name)
	})
	return c, nil
}

func add(c *caches, resource string, cached func(namespace, name string) (object, error)) {
	c.feeds[resource] = &feed{events: make(chan watch.Event, 64), shown: map[string]object{}, cached: cached}
}

// load turns the caches' content into the state, and returns when they show it.
func (c *caches) load(ctx context.Context, s *state) error {
	awaited := []awaited{
		show(c, "nodes", s.nodes), show(c, "csinodes", s.csiNodes), show(c, "storageclasses", s.classes), show(c, "csidrivers", s.drivers),
		show(c, "csistoragecapacities", s.capacities), show(c, "persistentvolumes", s.volumes), show(c, "persistentvolumeclaims", s.claims),
	}
	ctx, cancel := context.WithTimeout(ctx, lagLimit)
	defer cancel()
	for _, a := range awaited {
		for !a.seen() {
			if ctx.Err() != nil {
				return fmt.Errorf("prebind's cache does not show %s %s: %w", a.resource, a.last.GetName(), ctx.Err())
			}
			runtime.Gosched()
		}
	}
	return nil
}

// awaited is the last change of a resource, after which all of it is seen.
type awaited struct {
	resource string
	feed     *feed
	last     object // nil: there was no change
	deleted  bool
}

func (a awaited) seen() bool {
	if a.last == nil {
		return true
	}
	now, err := a.feed.cached(a.last.GetNamespace(), a.last.GetName())
	if a.deleted {
		return err != nil
	}
	return err == nil && now.GetResourceVersion() == a.last.GetResourceVersion()
}

// show sends the events after which the resource has these objects and no
// others.
func show[T object](c *caches, resource string, objects []T) awaited {
	f := c.feeds[resource]
	a := awaited{resource: resource, feed: f}
	now := make(map[string]object, len(objects))
	for _, o := range objects {
		key := cache.MetaObjectToName(o).String()
		kind := watch.Added
		if _, was := f.shown[key]; was {
			kind = watch.Modified
			delete(f.shown, key)
		}
		now[key] = o
		a.last = c.send(f, kind, o)
	}
	for _, o := range f.shown {
		a.last, a.deleted = c.send(f, watch.Deleted, o.DeepCopyObject().(object)), true
	}
	f.shown = now
	return a
}

func (c *caches) send(f *feed, kind watch.EventType, o object) object {
	c.next++
	o.SetResourceVersion(strconv.Itoa(c.next))
	f.events <- watch.Event{Type: kind, Object: o}
	return o
}
