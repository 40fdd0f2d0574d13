package controlplane

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CreateNamespace creates a namespace whose name begins with prefix, waits
// until pods can be created in it, and returns its name.
func (cp *ControlPlane) CreateNamespace(ctx context.Context, prefix string) (string, error) {
	request := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.TrimSuffix(prefix, "-") + "-"}}
	namespace, err := cp.client.CoreV1().Namespaces().Create(ctx, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return namespace.Name, cp.awaitDefaultServiceAccount(ctx, namespace.Name)
}
