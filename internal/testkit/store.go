package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// store is the objects, their history and who watches them. API.mu guards it.
type store struct {
	version  int64
	objects  map[string]map[string]runtime.Object // resource -> name -> object
	history  []event
	watchers map[*watcher]struct{}
	clients  map[*Client]struct{}
	held     map[string][]event // by resource; present: its watches stand still
}

// event is one change of one object; before or after is nil.
type event struct {
	version       int64
	resource      string
	before, after runtime.Object
}

func (e event) name() string {
	if e.after != nil {
		return nameOf(e.after)
	}
	return nameOf(e.before)
}

func newStore() store {
	return store{version: 1000, objects: map[string]map[string]runtime.Object{}, watchers: map[*watcher]struct{}{}, clients: map[*Client]struct{}{}, held: map[string][]event{}}
}

// Put creates the objects, or puts them in the place of those that have the
// same names.
func (a *API) Put(objects ...runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, obj := range objects {
		a.put(resourceOf(obj), obj.DeepCopyObject())
	}
}

// Remove deletes an object, finalizers or not. It must exist.
func (a *API) Remove(resource, name string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.remove(resource, name); err != nil {
		a.t.Fatalf("removing: %v", err)
	}
}

// Hold stops the watches of a resource: caches keep what they have, and what
// changes meanwhile is seen after Release.
func (a *API) Hold(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[resource] = []event{}
}

// Release lets the watches of a resource go on.
func (a *API) Release(resource string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.held[resource]
	delete(a.held, resource)
	for _, e := range events {
		a.deliver(e)
	}
}

func read[T any](a *API, name string) *T {
	a.mu.Lock()
	defer a.mu.Unlock()
	var example any = new(T)
	obj := example.(runtime.Object)
	current, ok := a.objects[resourceOf(obj)][name]
	if !ok {
		return nil
	}
	var copied any = current.DeepCopyObject()
	return copied.(*T)
}

// change is one step: no write of a client gets lost in it. f must not use the
// API.
func change[T any](a *API, name string, f func(*T)) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var example any = new(T)
	resource := resourceOf(example.(runtime.Object))
	current, ok := a.objects[resource][name]
	if !ok {
		a.t.Errorf("%T %s does not exist", example, name)
		return
	}
	changed := current.DeepCopyObject()
	var typed any = changed
	f(typed.(*T))
	a.put(resource, changed)
}

// put stores obj, which is the store's from here on, under a new version.
func (s *store) put(resource string, obj runtime.Object) {
	accessor := access(obj)
	s.version++
	accessor.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]runtime.Object{}
	}
	before := s.objects[resource][accessor.GetName()]
	s.objects[resource][accessor.GetName()] = obj
	s.record(event{s.version, resource, before, obj})
}

func (s *store) remove(resource, name string) error {
	before, ok := s.objects[resource][name]
	if !ok {
		return notFound(resource, name)
	}
	s.version++
	delete(s.objects[resource], name)
	s.record(event{s.version, resource, before, nil})
	return nil
}

func (s *store) record(e event) {
	s.history = append(s.history, e)
	if waiting, held := s.held[e.resource]; held {
		s.held[e.resource] = append(waiting, e)
		return
	}
	s.deliver(e)
}

// deliver shows the event to all watches but those that their client holds.
func (s *store) deliver(e event) {
	for w := range s.watchers {
		if w.resource != e.resource {
			continue
		}
		if w.client == nil || w.client.held[e.resource] == nil {
			w.see(e)
		}
	}
	for c := range s.clients {
		if waiting := c.held[e.resource]; waiting != nil {
			c.held[e.resource] = append(waiting, e)
		}
	}
}

// show shows an event that was held to the client's watches.
func (s *store) show(e event, c *Client) {
	for w := range s.watchers {
		if w.resource == e.resource && w.client == c {
			w.see(e)
		}
	}
}

// Version is that of the last change.
func (a *API) Version() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

// States returns what an object was from one version to another, in order;
// nil stands for a time in which there was none. The objects must not be
// changed.
func (a *API) States(resource, name string, from, to int64) []runtime.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	states := []runtime.Object{nil}
	for _, e := range a.history {
		switch {
		case e.version > to:
			return states
		case e.resource != resource || e.name() != name:
		case e.version <= from:
			states[0] = e.after
		default:
			states = append(states, e.after)
		}
	}
	return states
}

// apply does what a request asks for.
func (s *store) apply(action clienttesting.Action) (runtime.Object, error) {
	resource := action.GetResource().Resource
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		return s.get(resource, action.Name)
	case clienttesting.ListActionImpl:
		return s.list(resource, action)
	case clienttesting.CreateActionImpl:
		if binding, ok := action.Object.(*v1.Binding); ok {
			return binding, s.bind(binding)
		}
		if _, err := s.get(resource, nameOf(action.Object)); err == nil {
			return nil, apierrors.NewAlreadyExists(group(resource), nameOf(action.Object))
		}
		s.put(resource, action.Object.DeepCopyObject())
		return s.get(resource, nameOf(action.Object))
	case clienttesting.UpdateActionImpl:
		name := nameOf(action.Object)
		if err := s.check(resource, name, access(action.Object)); err != nil {
			return nil, err
		}
		s.put(resource, action.Object.DeepCopyObject())
		return s.get(resource, name)
	case clienttesting.PatchActionImpl:
		return s.patch(resource, action)
	case clienttesting.DeleteActionImpl:
		return nil, s.remove(resource, action.Name)
	}
	return nil, fmt.Errorf("testkit: %T is not served", action)
}

func (s *store) get(resource, name string) (runtime.Object, error) {
	obj, ok := s.objects[resource][name]
	if !ok {
		return nil, notFound(resource, name)
	}
	return obj.DeepCopyObject(), nil
}

func (s *store) list(resource string, action clienttesting.ListActionImpl) (runtime.Object, error) {
	list, err := scheme.Scheme.New(action.Kind.GroupVersion().WithKind(action.Kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	selects, err := selector(action.ListOptions)
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(s.objects[resource])) {
		if obj := s.objects[resource][name]; selects(obj) {
			items = append(items, obj.DeepCopyObject())
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(s.version, 10))
	return list, nil
}

// check compares what a write was decided on with the object as it is.
func (s *store) check(resource, name string, decided metav1.Object) error {
	current, ok := s.objects[resource][name]
	if !ok {
		return notFound(resource, name)
	}
	now := access(current)
	if version := decided.GetResourceVersion(); version != "" && version != now.GetResourceVersion() {
		return apierrors.NewConflict(group(resource), name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := decided.GetUID(); uid != "" && uid != now.GetUID() {
		return apierrors.NewInvalid(schema.GroupKind{Kind: resource}, name, nil)
	}
	return nil
}

// bind is pods/binding: all its refusals are conflicts.
func (s *store) bind(binding *v1.Binding) error {
	obj, ok := s.objects["pods"][binding.Name]
	if !ok {
		return notFound("pods", binding.Name)
	}
	pod := obj.DeepCopyObject().(*v1.Pod)
	var refusal error
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		refusal = fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", binding.UID, pod.UID) //nolint:staticcheck // the API server's words
	case pod.DeletionTimestamp != nil:
		refusal = fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		refusal = fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		refusal = fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name)
	}
	if refusal != nil {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, binding.Name, refusal)
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	s.put("pods", pod)
	return nil
}

func notFound(resource, name string) error { return apierrors.NewNotFound(group(resource), name) }

func group(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

func access(obj runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return accessor
}

func nameOf(obj runtime.Object) string { return access(obj).GetName() }

func resourceOf(obj runtime.Object) string {
	gvks, _, err := scheme.Scheme.ObjectKinds(obj.DeepCopyObject())
	if err != nil {
		panic(err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(gvks[0])
	return gvr.Resource
}
