package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/prebind/prebind/test/build"
)

const (
	kubeletUser    = "prebind-test-kubelet"
	kubeletWorkers = 4
)

// RunKubelets plays the kubelets of all nodes made by [build.Node] until the
// returned function is called: a pod that is assigned becomes Running and
// Ready, one that is deleted after that goes away. The order of StatefulSets
// (OrderedReady) then works as in reality. On an existing cluster it also
// renews the nodes' leases.
func (cp *ControlPlane) RunKubelets(ctx context.Context) (stop func(), err error) {
	config, err := cp.UserConfig(kubeletUser, "system:masters")
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("starting the kubelets: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	k := newKubelets(client)
	k.factory.StartWithContext(ctx)
	var group wait.Group
	for range kubeletWorkers {
		group.StartWithContext(ctx, k.work)
	}
	if cp.existing {
		group.StartWithContext(ctx, k.renewLeases)
	}
	stop = func() {
		cancel()
		k.queue.ShutDown()
		group.Wait()
		k.factory.Shutdown()
	}
	for _, synced := range k.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			stop()
			return nil, fmt.Errorf("starting the kubelets: %w", context.Cause(ctx))
		}
	}
	return stop, nil
}

// kubelets mark pods as kubelets do. The queue holds namespace/name of pods.
type kubelets struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	pods    cache.Indexer
	nodes   cache.Indexer
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newKubelets(client kubernetes.Interface) *kubelets {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	k := &kubelets{
		client: client, factory: factory, pods: pods.GetIndexer(), nodes: nodes.GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)),
	}
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			k.queue.Add(key)
		}
	}
	_, _ = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only for a stopped informer
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	return k
}

func (k *kubelets) work(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		if err := k.sync(ctx, key); err != nil && ctx.Err() == nil {
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// sync brings one pod to where its kubelet would have brought it.
func (k *kubelets) sync(ctx context.Context, key string) error {
	object, _, err := k.pods.GetByKey(key)
	if err != nil {
		return err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	object, _, err = k.nodes.GetByKey(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	if !simulated(object) {
		return nil
	}
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
	} else if pod.Status.Phase == corev1.PodPending {
		running := pod.DeepCopy()
		markRunning(running)
		_, err = pods.UpdateStatus(ctx, running, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// simulated tells whether an object is a node whose kubelet we play.
func simulated(object any) bool {
	node, ok := object.(*corev1.Node)
	return ok && node.Labels[build.NodeLabel] == "true"
}

// markRunning sets the status of a pod whose containers have all started.
func markRunning(pod *corev1.Pod) {
	now := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &now
	conditions := pod.Status.Conditions[:0]
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			conditions = append(conditions, c)
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	pod.Status.Conditions = conditions
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}
