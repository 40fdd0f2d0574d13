package testkit

import (
	"fmt"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// watcher is one watch. Its queue has no bound, so that a change never waits
// for who watches it.
type watcher struct {
	client   *Client // nil: API.Client
	resource string
	selects  func(runtime.Object) bool
	result   chan watch.Event
	more     chan struct{} // holds one signal
	done     chan struct{}
	stop     sync.Once

	mu    sync.Mutex
	queue []watch.Event
}

func (a *API) watch(action clienttesting.Action, client *Client) (watch.Interface, error) {
	request, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return nil, fmt.Errorf("testkit: %T is not served", action)
	}
	selects, err := selector(request.ListOptions)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		client: client, resource: request.Resource.Resource, selects: selects,
		result: make(chan watch.Event), more: make(chan struct{}, 1), done: make(chan struct{}),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	since, err := strconv.ParseInt("0"+request.ListOptions.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	for _, e := range a.history {
		if e.resource == w.resource && e.version > since {
			w.see(e)
		}
	}
	a.watchers[w] = struct{}{}
	go w.pump()
	return w, nil
}

// see queues what the event means under the watch's selector.
func (w *watcher) see(e event) {
	before := e.before != nil && w.selects(e.before)
	after := e.after != nil && w.selects(e.after)
	var seen watch.Event
	switch {
	case before && after && access(e.before).GetUID() != access(e.after).GetUID():
		w.push(watch.Event{Type: watch.Deleted, Object: e.before.DeepCopyObject()})
		seen = watch.Event{Type: watch.Added, Object: e.after.DeepCopyObject()}
	case before && after:
		seen = watch.Event{Type: watch.Modified, Object: e.after.DeepCopyObject()}
	case after:
		seen = watch.Event{Type: watch.Added, Object: e.after.DeepCopyObject()}
	case before:
		last := e.before.DeepCopyObject()
		access(last).SetResourceVersion(strconv.FormatInt(e.version, 10))
		seen = watch.Event{Type: watch.Deleted, Object: last}
	default:
		return
	}
	w.push(seen)
}

func (w *watcher) push(e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, e)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watcher) pump() {
	defer close(w.result)
	for {
		for _, e := range w.take() {
			select {
			case w.result <- e:
			case <-w.done:
				return
			}
		}
		select {
		case <-w.more:
		case <-w.done:
			return
		}
	}
}

func (w *watcher) take() []watch.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop.Do(func() { close(w.done) }) }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// selector returns what the options select. The fields are those that the API
// server has for pods and events.
func selector(options metav1.ListOptions) (func(runtime.Object) bool, error) {
	if options.LabelSelector != "" {
		return nil, fmt.Errorf("testkit: label selectors are not served")
	}
	parsed, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, err
	}
	if parsed.Empty() {
		return func(runtime.Object) bool { return true }, nil
	}
	return func(obj runtime.Object) bool { return parsed.Matches(fieldsOf(obj)) }, nil
}

func fieldsOf(obj runtime.Object) fields.Set {
	set := fields.Set{"metadata.name": nameOf(obj)}
	switch obj := obj.(type) {
	case *v1.Pod:
		set["spec.nodeName"], set["status.phase"] = obj.Spec.NodeName, string(obj.Status.Phase)
	case *v1.Event:
		set["involvedObject.kind"], set["involvedObject.name"] = obj.InvolvedObject.Kind, obj.InvolvedObject.Name
		set["involvedObject.uid"], set["type"] = string(obj.InvolvedObject.UID), obj.Type
	}
	return set
}
