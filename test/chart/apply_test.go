package chart_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/prebind/prebind/test/controlplane"
)

// resources are the plurals of the kinds that the chart renders.
var resources = map[string]string{
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts", "Pod": "pods",
	"Deployment": "deployments", "DaemonSet": "daemonsets", "PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies",
	"FlowSchema": "flowschemas",
}

// resource returns the client for an object's kind.
func resource(t *testing.T, cp *controlplane.ControlPlane, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	plural, known := resources[o.GetKind()]
	if !known {
		t.Fatalf("%s is of an unknown kind", id(o))
	}
	kind := o.GroupVersionKind()
	client := cp.Dynamic().Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: plural})
	if o.GetNamespace() == "" {
		return client
	}
	return client.Namespace(o.GetNamespace())
}

// dryRun has the API server judge an object without keeping it.
func dryRun(t *testing.T, cp *controlplane.ControlPlane, o *unstructured.Unstructured) {
	t.Helper()
	_, err := resource(t, cp, o).Create(t.Context(), o, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		t.Errorf("creating %s: %v", id(o), err)
	}
}

// clusterIP is the address that a Service has.
func clusterIP(t *testing.T, cp *controlplane.ControlPlane, namespace, name string) string {
	t.Helper()
	service, err := cp.Client().CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return service.Spec.ClusterIP
}

// freeIP returns an address of the Service range, of those that a test asks
// for by number. The API server gives out others first.
func freeIP(t *testing.T, number int) string {
	t.Helper()
	// The API server has taken the range's first.
	first := clusterIP(t, controlPlane(t), metav1.NamespaceDefault, "kubernetes")
	return fmt.Sprintf("%s.77.%d", strings.TrimSuffix(first, ".0.1"), number)
}
