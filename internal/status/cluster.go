package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// defaultOpsPort is that of the default server.opsAddress.
const defaultOpsPort = 8889

// Target names the pods of prebind by what selects them: a Service or a
// Deployment.
type Target struct {
	Namespace, Service, Deployment string
}

// Sources returns the target's running pods, to be asked through the API
// server's proxy: it takes the right to get pods/proxy.
func (t Target) Sources(ctx context.Context, client kubernetes.Interface) ([]Source, error) {
	selector, err := t.selector(ctx, client)
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", t, err)
	}
	var sources []Source
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == v1.PodRunning {
			sources = append(sources, proxied(client, pod.Namespace, pod.Name, opsPort(pod)))
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s has no running pod: see `kubectl -n %s get pods -l %s`", t, t.Namespace, selector)
	}
	return sources, nil
}

// String names the target as kubectl does.
func (t Target) String() string {
	if t.Service != "" {
		return "service " + t.Namespace + "/" + t.Service
	}
	return "deployment " + t.Namespace + "/" + t.Deployment
}

func (t Target) selector(ctx context.Context, client kubernetes.Interface) (labels.Selector, error) {
	selector := labels.Nothing()
	var err error
	if t.Service != "" {
		var service *v1.Service
		if service, err = client.CoreV1().Services(t.Namespace).Get(ctx, t.Service, metav1.GetOptions{}); err == nil {
			selector = labels.SelectorFromSet(service.Spec.Selector)
		}
	} else if deployment, getErr := client.AppsV1().Deployments(t.Namespace).Get(ctx, t.Deployment, metav1.GetOptions{}); getErr == nil {
		selector, err = metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	} else {
		err = getErr
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no %s; --namespace, --service and --deployment say where prebind is", t)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", t, err)
	case selector.Empty():
		return nil, fmt.Errorf("%s selects no pods by labels", t)
	}
	return selector, nil
}

// opsPort is the port that the chart calls "ops".
func opsPort(pod *v1.Pod) int {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "ops" {
				return int(port.ContainerPort)
			}
		}
	}
	return defaultOpsPort
}

// proxied is a pod behind the API server.
func proxied(client kubernetes.Interface, namespace, pod string, port int) Source {
	get := func(ctx context.Context) (int, []byte, error) {
		body, err := client.CoreV1().Pods(namespace).ProxyGet("http", pod, strconv.Itoa(port), strings.TrimPrefix(Path, "/"), nil).DoRaw(ctx)
		if err == nil {
			return http.StatusOK, body, nil
		}
		// What prebind refuses itself has the shape of prebind's errors.
		var refusal struct{ Error string }
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok && json.Unmarshal(body, &refusal) == nil && refusal.Error != "" {
			return int(status.ErrStatus.Code), body, nil
		}
		if apierrors.IsForbidden(err) {
			return 0, nil, fmt.Errorf("you may not get pods/proxy: %w", err)
		}
		return 0, nil, fmt.Errorf("%w; where server.opsAddress is on loopback, use `kubectl -n %s port-forward pod/%s %d` and --address", err, namespace, pod, port)
	}
	return Source{Name: namespace + "/" + pod, Get: get}
}
