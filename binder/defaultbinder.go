package binder

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/internal/instrument"
)

// DefaultBinderName is the plugin's name in the configuration.
const DefaultBinderName = "DefaultBinder"

// postTimeout bounds one POST of a Binding, and the look at its outcome. Both
// go on when the caller has hung up: a Binding that has been sent must not be
// left with its outcome unknown.
const postTimeout = 10 * time.Second

// defaultBinder posts the pod's Binding. The UID goes with it, so the API
// server refuses a pod of the same name that was made in the meantime.
type defaultBinder struct {
	client kubernetes.Interface
	writes *instrument.Writes
}

var _ BindPlugin = (*defaultBinder)(nil)

func newDefaultBinder(h Handle) (Plugin, error) {
	writes, err := instrument.NewWrites(h.Metrics, instrument.Bindings)
	return &defaultBinder{client: h.Client, writes: writes}, err
}

func (*defaultBinder) Name() string { return DefaultBinderName }

// Bind posts until the outcome is known or ctx ends. No POST is started after
// ctx has ended.
func (d *defaultBinder) Bind(ctx context.Context, call *Call) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 2 * time.Second}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		done, err := d.attempt(context.WithoutCancel(ctx), call)
		if done || backoff.Steps == 0 {
			return err
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
			d.writes.Again(instrument.Bindings, err)
		case <-ctx.Done():
			timer.Stop()
			return fault.New(fault.CodeOf(context.Cause(ctx)), "%s; the last try to bind: %w", fault.Detail(context.Cause(ctx)), err)
		}
	}
}

// attempt posts once. done means that another POST would not help, or is not
// needed.
func (d *defaultBinder) attempt(ctx context.Context, call *Call) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	pod := call.Pod
	postErr := d.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: call.Node},
	}, metav1.CreateOptions{})
	d.writes.Sent(instrument.Bindings, postErr)
	switch {
	case postErr == nil:
		return true, nil
	case apierrors.IsForbidden(postErr) || apierrors.IsInvalid(postErr) || apierrors.IsBadRequest(postErr):
		return true, fault.FromAPI(postErr, "create", "pods/binding", pod.Namespace+"/"+pod.Name)
	}
	return d.settle(ctx, call, postErr)
}

// settle reads the pod to learn what became of a POST that was refused with a
// conflict or whose answer was lost.
func (d *defaultBinder) settle(ctx context.Context, call *Call, postErr error) (done bool, err error) {
	// The POST may have used up its time; the look gets its own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	defer cancel()
	now, err := d.client.CoreV1().Pods(call.Pod.Namespace).Get(ctx, call.Pod.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fault.New(fault.APIError, "pod %s/%s: whether it was bound to node %s is not known: %w (and reading it: %s)", call.Pod.Namespace, call.Pod.Name, call.Node, postErr, err)
	}
	if apierrors.IsNotFound(err) {
		now = nil
	}
	assigned, problem := judgePod(call.request(), now)
	switch {
	case problem != nil:
		return true, problem
	case assigned:
		return true, nil
	case apierrors.IsConflict(postErr):
		return true, fault.New(fault.Conflict, "pod %s/%s: binding to node %s: %w", now.Namespace, now.Name, call.Node, postErr)
	}
	return false, fault.New(fault.APIError, "pod %s/%s: binding to node %s: %w", now.Namespace, now.Name, call.Node, postErr)
}
