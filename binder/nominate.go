package binder

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/internal/ctxlog"
	"github.com/prebind/prebind/internal/instrument"
	"github.com/prebind/prebind/volumes"
)

const (
	// nominateAfter is how long a call runs before its node is nominated, unless a
	// long wait is expected earlier (Call.ExpectWait).
	nominateAfter = 2 * time.Second
	// nominateTimeout bounds one request, and taking a nomination back: the answer to
	// the scheduler waits for that.
	nominateTimeout = 5 * time.Second
	fieldManager    = "prebind"
)

// nomination tells the cluster, in the pod's status.nominatedNodeName, where a pod
// that waits is going to be, so that autoscalers and a restarted scheduler know.
// It never fails a call. A nil nomination does nothing.
type nomination struct {
	client kubernetes.Interface
	writes *instrument.Writes
	caches *volumes.Caches
	pod    *v1.Pod // as admitted
	node   string

	soon chan struct{}      // holds one signal
	quit context.CancelFunc // ends the trying, not a request that was sent
	cut  context.CancelFunc // ends that too
	done chan struct{}      // closed when nothing is written any more; sent and written are safe to read then

	failed  error  // of the last patch, if it was not the last try
	sent    bool   // our node's name is, or may be, in the pod
	written string // resourceVersion of the pod with it; empty: not known
}

// nominate starts the call's nomination; nil if there is none. It must be ended.
func (b *Binder) nominate(ctx context.Context, call *Call) *nomination {
	if b.nominator == nil || !volumes.HasClaims(call.Pod) {
		return nil
	}
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	n := &nomination{
		client: b.nominator, writes: b.nominations, caches: b.caches, pod: call.Pod, node: call.Node,
		soon: make(chan struct{}, 1), quit: stop, cut: cut, done: make(chan struct{}),
	}
	go func() {
		defer close(n.done)
		err := b.guard(ctx, func() error { return n.run(ctx, requests) })
		if err != nil && ctx.Err() == nil {
			ctxlog.From(ctx).Warn("the node could not be nominated", zap.String("node", n.node), zap.Error(err))
		}
	}()
	return n
}

// now nominates the node at once, if that has not been done.
func (n *nomination) now() {
	if n == nil {
		return
	}
	select {
	case n.soon <- struct{}{}:
	default:
	}
}

// stop keeps a nomination from being sent from here on.
func (n *nomination) stop() {
	if n != nil {
		n.quit()
	}
}

// end takes the nomination back, unless the pod is bound: then the API server does,
// and refuses one that is still on its way.
func (n *nomination) end(ctx context.Context, bound bool) {
	if n == nil {
		return
	}
	defer n.cut()
	n.quit()
	if bound {
		n.cut()
	}
	<-n.done // else it might be written when it has been taken back
	if bound || !n.sent {
		return
	}
	// Also when the caller has gone, or time is over: this is what ends then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nominateTimeout)
	defer cancel()
	if err := n.takeBack(ctx); err != nil {
		ctxlog.From(ctx).Warn("the nomination could not be taken back; the scheduler does so after a failed attempt", zap.String("node", n.node), zap.Error(err))
	}
}

func (n *nomination) run(ctx, requests context.Context) error {
	timer := time.NewTimer(nominateAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.soon:
	case <-ctx.Done():
	}
	return n.write(ctx, requests)
}

// write nominates the node, unless the pod has a nomination.
func (n *nomination) write(ctx, requests context.Context) error {
	// What the call was admitted with may come from a filter call, without a status. A
	// nomination in the cache may be one that the pod's last call has taken back.
	pod, err := n.caches.Pods.Pods(n.pod.Namespace).Get(n.pod.Name)
	if err != nil || pod.UID != n.pod.UID || pod.Status.NominatedNodeName != "" {
		pod = nil
	}
	return n.persist(ctx, requests, pod, n.node, func(now *v1.Pod) bool {
		if n.sent && now.Status.NominatedNodeName == n.node { // and the answer was lost
			n.written = now.ResourceVersion
		}
		return now.Status.NominatedNodeName == "" && now.DeletionTimestamp == nil
	})
}

// takeBack clears our nomination.
func (n *nomination) takeBack(ctx context.Context) error {
	n.failed = nil
	var pod *v1.Pod
	if n.written != "" {
		pod = n.pod.DeepCopy()
		pod.ResourceVersion, pod.Status.NominatedNodeName = n.written, n.node
	}
	return n.persist(ctx, ctx, pod, "", func(now *v1.Pod) bool { return now.Status.NominatedNodeName == n.node })
}

// persist writes the node's name to the pod, which is read if it is nil, for as long
// as it is this pod, unassigned, and due says that it is to be written. Each write
// is for the very version that was looked at; after one that was refused for that,
// or whose outcome is unclear, the pod is read again. Nothing is sent after ctx
// has ended; what has been sent ends with requests.
func (n *nomination) persist(ctx, requests context.Context, pod *v1.Pod, node string, due func(now *v1.Pod) bool) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 2 * time.Second}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := n.attempt(requests, pod, node, due)
		if err == nil || refused(err) || backoff.Steps == 0 {
			return err
		}
		pod = nil
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (n *nomination) attempt(ctx context.Context, pod *v1.Pod, node string, due func(now *v1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, nominateTimeout)
	defer cancel()
	if pod == nil {
		var err error
		pod, err = n.client.CoreV1().Pods(n.pod.Namespace).Get(ctx, n.pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the pod: %w", err)
		}
	}
	if pod.UID != n.pod.UID || pod.Spec.NodeName != "" || !due(pod) {
		return nil
	}
	version, err := n.patch(ctx, pod, node)
	switch {
	case err == nil:
		n.sent, n.written = true, version
		ctxlog.From(ctx).Debug("wrote nominatedNodeName", zap.String("nominatedNodeName", node), zap.String("resourceVersion", version))
	case apierrors.IsNotFound(err):
		return nil
	case !refused(err) && !apierrors.IsConflict(err):
		n.sent = true // perhaps
	}
	return err
}

// refused tells whether an error is the API server's word that it wrote nothing, and
// that another try would change nothing.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (n *nomination) patch(ctx context.Context, pod *v1.Pod, node string) (version string, err error) {
	var name any // null clears
	if node != "" {
		name = node
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pod.ResourceVersion, "uid": pod.UID},
		"status":   map[string]any{"nominatedNodeName": name},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the patch: %w", err)
	}
	if n.failed != nil {
		n.writes.Again(instrument.PodStatus, n.failed)
	}
	now, err := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	n.writes.Sent(instrument.PodStatus, err)
	n.failed = err
	if err != nil {
		return "", fmt.Errorf("patching pods/status: %w", err)
	}
	return now.ResourceVersion, nil
}
