package binder

import (
	"context"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// VolumeBindingName is the plugin's name in the configuration.
const VolumeBindingName = "VolumeBinding"

// volumeBinding has the pod's claims bound before the pod is: it plans and
// holds volumes in Reserve, writes and waits in PreBind. All it knows of
// volumes is in package volumes.
type volumeBinding struct {
	volumes *volumes.Prebinder
}

var (
	_ ReservePlugin = (*volumeBinding)(nil)
	_ PreBindPlugin = (*volumeBinding)(nil)
)

func newVolumeBinding(h Handle) (Plugin, error) { return &volumeBinding{volumes: h.Volumes}, nil }

func (*volumeBinding) Name() string { return VolumeBindingName }

func (v *volumeBinding) Reserve(ctx context.Context, call *Call) error {
	reservation, err := v.volumes.Reserve(ctx, call.Pod, call.Node)
	if err != nil {
		return err
	}
	call.Put(VolumeBindingName, reservation)
	return nil
}

func (v *volumeBinding) Unreserve(_ context.Context, call *Call) {
	if reservation, ok := call.Get(VolumeBindingName).(*volumes.Reservation); ok {
		v.volumes.Unreserve(reservation)
	}
}

func (v *volumeBinding) PreBind(ctx context.Context, call *Call) error {
	reservation, ok := call.Get(VolumeBindingName).(*volumes.Reservation)
	if !ok {
		return fault.New(fault.Internal, "nothing was reserved for pod %s/%s", call.Pod.Namespace, call.Pod.Name)
	}
	if len(reservation.Provisions()) > 0 {
		call.ExpectWait()
	}
	return v.volumes.Bind(ctx, call.Pod, reservation)
}
