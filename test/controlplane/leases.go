package controlplane

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// leaseInterval is how often kubelets renew a node's lease.
const leaseInterval = 10 * time.Second

// renewLeases keeps the nodes alive for a node lifecycle controller.
func (k *kubelets) renewLeases(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, object := range k.nodes.List() {
			if node, ok := object.(*corev1.Node); ok && simulated(node) {
				_ = k.renewLease(ctx, node.Name) // the next round tries again
			}
		}
	}, leaseInterval)
}

func (k *kubelets) renewLease(ctx context.Context, node string) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(node), LeaseDurationSeconds: new(int32(40)), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
