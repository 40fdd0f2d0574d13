package testkit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// API is a fake API server behind client-go's fake clientset. Unlike that one
// it stamps each change with a resourceVersion and refuses a write that was
// decided on another; it applies merge patches to the object as it is then;
// it serves pods/binding with the checks of the real one; it heeds field
// selectors, also in watches, where an object that no longer matches is seen
// deleted.
//
// The test itself writes with Put, Change... and Remove, which no rule sees and
// which are not recorded.
type API struct {
	Client *fake.Clientset

	t  testing.TB
	mu sync.Mutex
	store
	rules    []*rule
	requests []Request
	onWrite  func(Write)
}

// Request is one request that came through the client.
type Request struct {
	Verb     string // get, list, create, update, patch, delete
	Resource string // with the subresource, as in "pods/binding"
	Name     string // without the namespace; "" for a list
	Body     string // of a patch
	// Outcome is "" for success, else the code of the answer, or "lost" if the
	// write was applied and an error answered.
	Outcome string
	// By is who sent it, as told by As.
	By any
}

// Write is a request that would change something, and what became of it.
type Write struct {
	Request
	// Before and After are the object around it; nil is none. They must not be
	// changed.
	Before, After runtime.Object
	Err           error // of a refusal
}

// String is as short as tests like it: "patch persistentvolumes/pv-1 (409)".
func (r Request) String() string {
	text := r.Verb + " " + r.Resource
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Outcome != "" {
		text += " (" + r.Outcome + ")"
	}
	return text
}

func (r Request) writes() bool { return r.Verb != "get" && r.Verb != "list" }

// rule runs a function at certain requests.
type rule struct {
	verb, resource string
	after          bool
	countdown      int // 0: at every request
	run            func(Request) error
}

// NewAPI returns an API server that holds the objects.
func NewAPI(t testing.TB, objects ...runtime.Object) *API {
	t.Helper()
	a := &API{Client: &fake.Clientset{}, t: t, store: newStore()}
	a.Put(objects...)
	a.Client.AddReactor("*", "*", a.serve)
	a.Client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := a.watch(action, nil)
		return true, w, err
	})
	return a
}

// Before runs f before the nth request from now on that matches is looked at:
// 1 is the next one, 0 means every one. An error is answered in its place. f
// may change objects; it must not use the client.
func (a *API) Before(verb, resource string, nth int, f func(Request) error) {
	a.addRule(&rule{verb: verb, resource: resource, countdown: nth, run: f})
}

// After runs f after the nth successful request that matches was applied and
// before it is answered. An error is answered in place of the success: the
// answer is lost.
func (a *API) After(verb, resource string, nth int, f func(Request) error) {
	a.addRule(&rule{verb: verb, resource: resource, countdown: nth, run: f, after: true})
}

// OnWrite has f look at each write at the moment at which it is applied or
// refused. f must not use the API.
func (a *API) OnWrite(f func(Write)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onWrite = f
}

func (a *API) addRule(r *rule) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = append(a.rules, r)
}

// Writes lists the requests that would change something, in the order in which
// they were answered.
func (a *API) Writes() []string {
	return a.list(Request.writes)
}

// Reads lists the single objects that were asked for.
func (a *API) Reads() []string {
	return a.list(func(r Request) bool { return r.Verb == "get" })
}

// Bodies lists the bodies of all patches.
func (a *API) Bodies() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var bodies []string
	for _, request := range a.requests {
		if request.Body != "" {
			bodies = append(bodies, request.Body)
		}
	}
	return bodies
}

func (a *API) list(keep func(Request) bool) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var texts []string
	for _, request := range a.requests {
		if keep(request) {
			texts = append(texts, request.String())
		}
	}
	return texts
}

// serve is the reactor of all requests but watches.
func (a *API) serve(action clienttesting.Action) (bool, runtime.Object, error) {
	obj, err := a.handle(describe(action), action, Fault{})
	return true, obj, err
}

// handle serves a request and notes it.
func (a *API) handle(request Request, action clienttesting.Action, fault Fault) (runtime.Object, error) {
	obj, err := a.answer(&request, action, fault)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && request.Outcome == "" {
		request.Outcome = outcome(err)
	}
	a.requests = append(a.requests, request)
	return obj, err
}

func (a *API) answer(request *Request, action clienttesting.Action, fault Fault) (runtime.Object, error) {
	if fault.Refuse != nil {
		return nil, fault.Refuse
	}
	if err := a.runRules(*request, false); err != nil {
		return nil, err
	}
	obj, err := a.applyAndShow(*request, action)
	if err != nil {
		return nil, err
	}
	if err = a.runRules(*request, true); err == nil {
		err = fault.Lose
	}
	if err != nil {
		request.Outcome = "lost"
		return nil, err
	}
	return obj, nil
}

func (a *API) applyAndShow(request Request, action clienttesting.Action) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := action.GetResource().Resource
	before := a.objects[resource][request.Name]
	obj, err := a.apply(action)
	if a.onWrite != nil && request.writes() {
		a.onWrite(Write{Request: request, Before: before, After: a.objects[resource][request.Name], Err: err})
	}
	return obj, err
}

// runRules runs what is due, outside the lock: the functions use the API.
func (a *API) runRules(request Request, after bool) error {
	a.mu.Lock()
	var due []func(Request) error
	kept := a.rules[:0:0]
	for _, r := range a.rules {
		if r.after != after || r.verb != request.Verb || r.resource != request.Resource {
			kept = append(kept, r)
			continue
		}
		if r.countdown <= 1 {
			due = append(due, r.run)
		}
		if r.countdown != 1 {
			r.countdown = max(r.countdown-1, 0)
			kept = append(kept, r)
		}
	}
	a.rules = kept
	a.mu.Unlock()
	for _, run := range due {
		if err := run(request); err != nil {
			return err
		}
	}
	return nil
}

func describe(action clienttesting.Action) Request {
	request := Request{Verb: action.GetVerb(), Resource: action.GetResource().Resource}
	if sub := action.GetSubresource(); sub != "" {
		request.Resource += "/" + sub
	}
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		request.Name = action.Name
	case clienttesting.DeleteActionImpl:
		request.Name = action.Name
	case clienttesting.PatchActionImpl:
		request.Name, request.Body = action.Name, string(action.Patch)
	case clienttesting.CreateActionImpl:
		request.Name = nameOf(action.Object)
	case clienttesting.UpdateActionImpl:
		request.Name = nameOf(action.Object)
	}
	return request
}

func outcome(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fmt.Sprint(status.ErrStatus.Code)
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// Pod returns a copy of the pod, or nil.
func (a *API) Pod(name string) *v1.Pod { return read[v1.Pod](a, name) }

// Claim returns a copy of the claim, or nil.
func (a *API) Claim(name string) *v1.PersistentVolumeClaim {
	return read[v1.PersistentVolumeClaim](a, name)
}

// Volume returns a copy of the volume, or nil.
func (a *API) Volume(name string) *v1.PersistentVolume { return read[v1.PersistentVolume](a, name) }

// ChangePod changes the pod as another client would.
func (a *API) ChangePod(name string, f func(*v1.Pod)) { change(a, name, f) }

// ChangeClaim changes the claim as another client would.
func (a *API) ChangeClaim(name string, f func(*v1.PersistentVolumeClaim)) { change(a, name, f) }

// ChangeVolume changes the volume as another client would.
func (a *API) ChangeVolume(name string, f func(*v1.PersistentVolume)) { change(a, name, f) }

// ChangeNode changes the node as another client would.
func (a *API) ChangeNode(name string, f func(*v1.Node)) { change(a, name, f) }
