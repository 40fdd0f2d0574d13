package binder

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/fault"
)

// Request is one bind call, as kube-scheduler sends it.
type Request struct {
	// ID is the request's id, for logs.
	ID              string
	Namespace, Name string // of the pod
	UID             types.UID
	Node            string
}

func (c *Call) request() Request {
	return Request{Namespace: c.Pod.Namespace, Name: c.Pod.Name, UID: c.Pod.UID, Node: c.Node}
}

// validate checks the arguments alone and names everything that is wrong.
func (r *Request) validate() error {
	var wrong []string
	check := func(field, value string, valid validation.ValidateNameFunc) {
		if value == "" {
			wrong = append(wrong, field+" is missing")
			return
		}
		if msgs := valid(value, false); len(msgs) > 0 {
			wrong = append(wrong, field+" is not valid: "+msgs[0])
		}
	}
	check("PodName", r.Name, validation.NameIsDNSSubdomain)
	check("PodNamespace", r.Namespace, validation.ValidateNamespaceName)
	check("PodUID", string(r.UID), func(string, bool) []string { return nil })
	check("Node", r.Node, validation.NameIsDNSSubdomain)
	if len(wrong) > 0 {
		return fault.New(fault.InvalidRequest, "%s", strings.Join(wrong, "; "))
	}
	return nil
}

// admit reads the pod and the node and refuses what can not be bound, before
// anything is written. assigned means that the pod is on the node already and
// nothing is left to do.
func (b *Binder) admit(ctx context.Context, req Request) (pod *v1.Pod, assigned bool, err error) {
	pod, err = b.readPod(ctx, req)
	if err != nil {
		return nil, false, err
	}
	if assigned, problem := judgePod(req, pod); problem != nil || assigned {
		return pod, assigned, asError(problem)
	}
	if _, err := b.caches.Nodes.Get(req.Node); err == nil {
		return pod, false, nil
	}
	switch _, err := b.client.CoreV1().Nodes().Get(ctx, req.Node, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return nil, false, fault.New(fault.NodeNotFound, "node %s does not exist", req.Node)
	case err != nil:
		return nil, false, readFault(ctx, err, "nodes", req.Node)
	}
	return pod, false, nil
}

// readPod takes the pod from the caches if they show it as the request has
// it. The call often arrives before the watch has shown the pod, and assigned
// pods are not in the cache: then the API server is asked. Nil is no such pod.
func (b *Binder) readPod(ctx context.Context, req Request) (*v1.Pod, error) {
	if pod := b.caches.UnassignedPod(req.Namespace, req.Name, req.UID); pod != nil {
		return pod, nil
	}
	pod, err := b.client.CoreV1().Pods(req.Namespace).Get(ctx, req.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, readFault(ctx, err, "pods", req.Namespace+"/"+req.Name)
	}
	return pod, nil
}

func readFault(ctx context.Context, err error, resource, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.FromAPI(err, "get", resource, name)
}

// judgePod compares the pod, read by name, with what the request asks for.
func judgePod(req Request, pod *v1.Pod) (assigned bool, problem *fault.Error) {
	name := req.Namespace + "/" + req.Name
	switch {
	case pod == nil:
		return false, fault.New(fault.PodNotFound, "pod %s does not exist", name)
	case pod.UID != req.UID:
		return false, fault.New(fault.PodReplaced, "pod %s: it was deleted and made anew (uid %s, was %s)", name, pod.UID, req.UID)
	case pod.Spec.NodeName == req.Node:
		return true, nil
	case pod.Spec.NodeName != "":
		return false, fault.New(fault.PodAssigned, "pod %s: it is on node %s already, so it can not be bound to node %s", name, pod.Spec.NodeName, req.Node)
	case pod.DeletionTimestamp != nil:
		return false, fault.New(fault.PodTerminating, "pod %s: it is being deleted", name)
	case len(pod.Spec.SchedulingGates) > 0:
		return false, fault.New(fault.PodGated, "pod %s: it has scheduling gate %q", name, pod.Spec.SchedulingGates[0].Name)
	}
	return false, nil
}

// asError keeps a nil fault from becoming a non-nil error.
func asError(problem *fault.Error) error {
	if problem == nil {
		return nil
	}
	return problem
}
