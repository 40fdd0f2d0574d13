package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// WaitBound returns a pod when it is assigned to a node. When ctx ends first,
// the error tells the pod's newest events.
func (cp *ControlPlane) WaitBound(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return cp.WaitPod(ctx, namespace, name, "bound", func(pod *corev1.Pod) bool {
		return pod != nil && pod.Spec.NodeName != ""
	})
}

// WaitPod returns a pod when done says so; what describes it in the error. done
// gets nil while there is no such pod.
func (cp *ControlPlane) WaitPod(ctx context.Context, namespace, name, what string, done func(*corev1.Pod) bool) (*corev1.Pod, error) {
	pods := cache.NewListWatchFromClient(cp.client.CoreV1().RESTClient(), "pods", namespace, byName(name))
	pod, err := waitFor(ctx, pods, &corev1.Pod{}, done)
	if err != nil {
		return nil, fmt.Errorf("waiting for pod %s/%s to be %s: %w; its events:\n%s", namespace, name, what, err, cp.DescribeEvents(namespace, name))
	}
	return pod, nil
}

// WaitClaim returns a claim when done says so; what describes it in the error.
// done gets nil while there is no such claim.
func (cp *ControlPlane) WaitClaim(ctx context.Context, namespace, name, what string, done func(*corev1.PersistentVolumeClaim) bool) (*corev1.PersistentVolumeClaim, error) {
	claims := cache.NewListWatchFromClient(cp.client.CoreV1().RESTClient(), "persistentvolumeclaims", namespace, byName(name))
	claim, err := waitFor(ctx, claims, &corev1.PersistentVolumeClaim{}, done)
	if err != nil {
		return nil, fmt.Errorf("waiting for claim %s/%s to be %s: %w; its events:\n%s", namespace, name, what, err, cp.DescribeEvents(namespace, name))
	}
	return claim, nil
}

// WaitVolume returns a volume when done says so; what describes it in the
// error. done gets nil while there is no such volume.
func (cp *ControlPlane) WaitVolume(ctx context.Context, name, what string, done func(*corev1.PersistentVolume) bool) (*corev1.PersistentVolume, error) {
	volumes := cache.NewListWatchFromClient(cp.client.CoreV1().RESTClient(), "persistentvolumes", metav1.NamespaceAll, byName(name))
	volume, err := waitFor(ctx, volumes, &corev1.PersistentVolume{}, done)
	if err != nil {
		return nil, fmt.Errorf("waiting for volume %s to be %s: %w", name, what, err)
	}
	return volume, nil
}

func byName(name string) fields.Selector {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name)
}

// waitFor watches one object until done says so. The watch is renewed when it
// breaks, as it does when the API server is restarted.
func waitFor[T runtime.Object](ctx context.Context, objects cache.ListerWatcher, example T, done func(T) bool) (T, error) {
	var none T
	absent := func(store cache.Store) (bool, error) { return len(store.List()) == 0 && done(none), nil }
	event, err := watchtools.UntilWithSync(ctx, objects, example, absent, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(T)
		if !ok {
			return false, nil
		}
		if event.Type == watch.Deleted {
			object = none
		}
		return done(object), nil
	})
	if err != nil || event == nil || event.Type == watch.Deleted {
		return none, err
	}
	object, _ := event.Object.(T) // the condition has seen to it
	return object, nil
}

// Events returns the texts of the events about an object, oldest first, as
// "Warning FailedScheduling: ..."; reason picks some, empty all.
func (cp *ControlPlane) Events(ctx context.Context, namespace, name, reason string) ([]string, error) {
	selector := fields.Set{"involvedObject.name": name}
	if reason != "" {
		selector["reason"] = reason
	}
	list, err := cp.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the events of %s/%s: %w", namespace, name, err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	var texts []string
	for _, event := range list.Items {
		texts = append(texts, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
	}
	return texts, nil
}

// eventTime is when an event was seen last. Which field tells depends on the
// API by which it was made.
func eventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	default:
		return e.EventTime.Time
	}
}

// DescribeEvents prints the events about an object, for an error message. It
// does not depend on a context that may have ended.
func (cp *ControlPlane) DescribeEvents(namespace, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	texts, err := cp.Events(ctx, namespace, name, "")
	if err != nil {
		return err.Error()
	}
	return strings.Join(texts, "\n")
}
