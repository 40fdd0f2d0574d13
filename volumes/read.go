package volumes

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/fault"
)

// reader reads single objects from the caches or, with live set, from the API
// server. What does not exist is nil without an error.
type reader struct {
	caches *Caches
	client kubernetes.Interface
	live   bool
}

// live returns a reader that asks the API server.
func (p *Prebinder) live() *reader { return &reader{client: p.client, live: true} }

// nodeNow returns the node from the cache, or live if that lacks it: the plan
// may have been made from a live read. Nil is no such node.
func (p *Prebinder) nodeNow(ctx context.Context, name string) (*v1.Node, error) {
	if node, err := p.caches.Nodes.Get(name); err == nil {
		return node, nil
	}
	return p.live().node(ctx, name)
}

func (r *reader) node(ctx context.Context, name string) (*v1.Node, error) {
	if !r.live {
		node, err := r.caches.Nodes.Get(name)
		return found(node, err, "nodes", name)
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return found(node, err, "nodes", name)
}

func (r *reader) claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if !r.live {
		claim, err := r.caches.Claims.PersistentVolumeClaims(namespace).Get(name)
		return found(claim, err, "persistentvolumeclaims", namespace+"/"+name)
	}
	claim, err := r.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return found(claim, err, "persistentvolumeclaims", namespace+"/"+name)
}

func (r *reader) volume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	if !r.live {
		pv, err := r.caches.Volumes.Get(name)
		return found(pv, err, "persistentvolumes", name)
	}
	pv, err := r.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	return found(pv, err, "persistentvolumes", name)
}

func (r *reader) class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	if !r.live {
		class, err := r.caches.Classes.Get(name)
		return found(class, err, "storageclasses", name)
	}
	class, err := r.client.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	return found(class, err, "storageclasses", name)
}

func found[T any](obj *T, err error, resource, name string) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.FromAPI(err, "get", resource, name)
	}
	return obj, nil
}
