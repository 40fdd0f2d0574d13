package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/prebind/prebind/test/build"
)

// Volume is what an attempt makes.
type Volume = corev1.PersistentVolume

// maker is the part that the library calls, in parallel for several claims.
type maker struct{ *Provisioner }

var _ controller.BlockProvisioner = (*maker)(nil)

// Provision makes one volume, or fails as the class and the hook want it.
func (m *maker) Provision(ctx context.Context, opts controller.ProvisionOptions) (*Volume, controller.ProvisioningState, error) {
	attempt := m.record.add(Attempt{Claim: opts.PVC, Class: opts.StorageClass, Node: opts.SelectedNodeName})
	volume, err := m.attempt(ctx, attempt, opts.PVName)
	if err != nil {
		state := controller.ProvisioningReschedule
		if failure := (*FailureError)(nil); errors.As(err, &failure) {
			state = failure.State
		}
		return nil, state, err
	}
	return volume, controller.ProvisioningFinished, nil
}

func (m *maker) attempt(ctx context.Context, a Attempt, name string) (*Volume, error) {
	params, err := parseParameters(a.Class)
	if err != nil {
		return nil, err
	}
	if err := m.wait(ctx, a, params); err != nil {
		return nil, err
	}
	if params.fails(a) {
		return nil, &params.failure
	}
	if m.opts.Hook != nil {
		if err := m.opts.Hook(ctx, a); err != nil {
			return nil, err
		}
	}
	volume, err := m.volume(ctx, a, params, name)
	if err == nil && m.opts.Change != nil {
		m.opts.Change(a, volume)
	}
	return volume, err
}

// wait takes the time that the class's parameters want an attempt to take.
func (m *maker) wait(ctx context.Context, a Attempt, params parameters) error {
	ended := &FailureError{State: controller.ProvisioningInBackground, Message: "the provisioner was stopped"}
	if params.hold {
		select {
		case <-m.record.gate(nameOf(a.Claim)):
		case <-ctx.Done():
			return ended
		}
	}
	select {
	case <-time.After(params.delay):
		return nil
	case <-ctx.Done():
		return ended
	}
}

// volume describes a local volume on the node, or a hostPath one without a node.
func (m *maker) volume(ctx context.Context, a Attempt, params parameters, name string) (*Volume, error) {
	b := build.Volume(name)
	node := a.Node
	if params.onNode != "" {
		node = params.onNode
	}
	if node == "" {
		b.HostPath()
	} else {
		hostname, err := m.hostname(ctx, node)
		if err != nil {
			return nil, err
		}
		b.OnNode(hostname)
	}
	volume := b.Modes(a.Claim.Spec.AccessModes...).Obj()
	volume.Spec.VolumeMode = a.Claim.Spec.VolumeMode
	volume.Spec.Capacity[corev1.ResourceStorage] = a.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if a.Class.ReclaimPolicy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *a.Class.ReclaimPolicy
	}
	return volume, nil
}

// hostname returns the node's label, which need not be its name.
func (m *maker) hostname(ctx context.Context, node string) (string, error) {
	object, err := m.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("looking up the selected node: %w", err)
	}
	return object.Labels[corev1.LabelHostname], nil
}

// Delete forgets a volume: there is nothing behind it.
func (m *maker) Delete(context.Context, *Volume) error { return nil }

// SupportsBlock allows claims for block devices.
func (m *maker) SupportsBlock(context.Context) bool { return true }
