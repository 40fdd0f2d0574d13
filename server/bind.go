package server

import (
	"context"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/binder"
	"github.com/prebind/prebind/internal/fault"
)

// bindVerb is POST /v1/bind.
func (s *Server) bindVerb() verb[extenderv1.ExtenderBindingArgs, extenderv1.ExtenderBindingResult] {
	return verb[extenderv1.ExtenderBindingArgs, extenderv1.ExtenderBindingResult]{
		path:     pathBind,
		maxBytes: s.cfg.MaxBindBytes,
		call: func(ctx context.Context, id string, args *extenderv1.ExtenderBindingArgs) (extenderv1.ExtenderBindingResult, error) {
			return extenderv1.ExtenderBindingResult{}, s.cfg.Binder.Bind(ctx, binder.Request{
				ID:        id,
				Namespace: args.PodNamespace,
				Name:      args.PodName,
				UID:       args.PodUID,
				Node:      args.Node,
			})
		},
		fail: func(err error) extenderv1.ExtenderBindingResult {
			return extenderv1.ExtenderBindingResult{Error: fault.Text(err)}
		},
	}
}
