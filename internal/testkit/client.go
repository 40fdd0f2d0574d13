package testkit

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// Client is one process's way to the API: its watches lag on their own, and
// its requests can fail on their own. Unlike client-go's fake clientset it
// heeds the context of a request for a pod, node, claim or volume: one that
// has ended sends nothing, and one that ends meanwhile gives the answer up,
// but not what the request does.
type Client struct {
	*fake.Clientset

	// Sent is called for each of those requests when it is sent, with its
	// context, if not nil.
	Sent func(context.Context, Request)
	// Fault tells what is to go wrong with the request, if not nil.
	Fault func(Request) Fault

	api  *API
	held map[string][]event // by resource; API.mu guards it
}

// Fault is what goes wrong with one request. The zero Fault is nothing.
type Fault struct {
	// Delay passes before the API server looks at the request.
	Delay time.Duration
	// Refuse is answered, and nothing done.
	Refuse error
	// Lose is answered in place of success.
	Lose error
}

// NewClient returns a client besides API.Client. Its fields must be set before
// it is used.
func (a *API) NewClient() *Client {
	c := &Client{Clientset: &fake.Clientset{}, api: a, held: map[string][]event{}}
	c.AddReactor("*", "*", a.serve)
	c.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := a.watch(action, c)
		return true, w, err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clients[c] = struct{}{}
	return c
}

// Close ends the client's watches: its process is gone.
func (c *Client) Close() {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	delete(c.api.clients, c)
	for w := range c.api.watchers {
		if w.client == c {
			delete(c.api.watchers, w)
			w.Stop()
		}
	}
}

// Hold stops the client's watches of a resource.
func (c *Client) Hold(resource string) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.held[resource] == nil {
		c.held[resource] = []event{}
	}
}

// Advance lets the held watches of a resource see the next n changes.
func (c *Client) Advance(resource string, n int) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	waiting := c.held[resource]
	n = min(n, len(waiting))
	for _, e := range waiting[:n] {
		c.api.show(e, c)
	}
	if waiting != nil {
		c.held[resource] = waiting[n:]
	}
}

// Release lets the client's watches of a resource go on.
func (c *Client) Release(resource string) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	for _, e := range c.held[resource] {
		c.api.show(e, c)
	}
	delete(c.held, resource)
}

type whoKey struct{}

// As returns a context whose requests carry who as Request.By.
func As(ctx context.Context, who any) context.Context { return context.WithValue(ctx, whoKey{}, who) }

func send[T runtime.Object](ctx context.Context, c *Client, action clienttesting.Action) (T, error) {
	obj, err := c.send(ctx, action)
	typed, _ := obj.(T)
	return typed, err
}

func (c *Client) send(ctx context.Context, action clienttesting.Action) (runtime.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	request, fault := describe(action), Fault{}
	request.By = ctx.Value(whoKey{})
	if c.Sent != nil {
		c.Sent(ctx, request)
	}
	if c.Fault != nil {
		fault = c.Fault(request)
	}
	if fault.Delay == 0 {
		return c.api.handle(request, action, fault)
	}
	type answer struct {
		obj runtime.Object
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		time.Sleep(fault.Delay)
		obj, err := c.api.handle(request, action, fault)
		answered <- answer{obj, err}
	}()
	select {
	case a := <-answered:
		return a.obj, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// CoreV1 implements kubernetes.Interface.
func (c *Client) CoreV1() corev1.CoreV1Interface { return coreClient{c.Clientset.CoreV1(), c} }

type coreClient struct {
	corev1.CoreV1Interface
	c *Client
}

func (c coreClient) Pods(namespace string) corev1.PodInterface {
	return podClient{c.CoreV1Interface.Pods(namespace), c.c, namespace}
}

func (c coreClient) Nodes() corev1.NodeInterface {
	return nodeClient{c.CoreV1Interface.Nodes(), c.c}
}

func (c coreClient) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumeClient{c.CoreV1Interface.PersistentVolumes(), c.c}
}

func (c coreClient) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return claimClient{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.c, namespace}
}

type podClient struct {
	corev1.PodInterface
	c         *Client
	namespace string
}

func (p podClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.Pod, error) {
	return send[*v1.Pod](ctx, p.c, clienttesting.NewGetActionWithOptions(v1.SchemeGroupVersion.WithResource("pods"), p.namespace, name, options))
}

func (p podClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.Pod, error) {
	return send[*v1.Pod](ctx, p.c, clienttesting.NewPatchSubresourceActionWithOptions(v1.SchemeGroupVersion.WithResource("pods"), p.namespace, name, kind, data, options, subresources...))
}

type nodeClient struct {
	corev1.NodeInterface
	c *Client
}

func (n nodeClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.Node, error) {
	return send[*v1.Node](ctx, n.c, clienttesting.NewRootGetActionWithOptions(v1.SchemeGroupVersion.WithResource("nodes"), name, options))
}

type volumeClient struct {
	corev1.PersistentVolumeInterface
	c *Client
}

func (v volumeClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.PersistentVolume, error) {
	return send[*v1.PersistentVolume](ctx, v.c, clienttesting.NewRootGetActionWithOptions(v1.SchemeGroupVersion.WithResource("persistentvolumes"), name, options))
}

func (v volumeClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.PersistentVolume, error) {
	return send[*v1.PersistentVolume](ctx, v.c, clienttesting.NewRootPatchSubresourceActionWithOptions(v1.SchemeGroupVersion.WithResource("persistentvolumes"), name, kind, data, options, subresources...))
}

type claimClient struct {
	corev1.PersistentVolumeClaimInterface
	c         *Client
	namespace string
}

func (p claimClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.PersistentVolumeClaim, error) {
	return send[*v1.PersistentVolumeClaim](ctx, p.c, clienttesting.NewGetActionWithOptions(v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), p.namespace, name, options))
}

func (p claimClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.PersistentVolumeClaim, error) {
	return send[*v1.PersistentVolumeClaim](ctx, p.c, clienttesting.NewPatchSubresourceActionWithOptions(v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), p.namespace, name, kind, data, options, subresources...))
}
