package server

import (
	"context"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// filterVerb is POST /v1/filter.
func (s *Server) filterVerb() verb[nodeArgs, encoded] {
	return verb[nodeArgs, encoded]{
		path:     pathFilter,
		maxBytes: s.cfg.MaxFilterBytes,
		call:     s.filter,
		fail: func(err error) encoded {
			return encode(extenderv1.ExtenderFilterResult{Error: fault.Text(err)})
		},
	}
}

// filter answers as it was asked: with names, or with nodes just as they came. A
// pod without claims gets back what was sent.
func (s *Server) filter(ctx context.Context, _ string, args *nodeArgs) (encoded, error) {
	pod, err := args.pod()
	if err != nil {
		return encoded{}, err
	}
	s.cfg.Nodes.Seen(pod)
	if !volumes.HasClaims(pod) {
		return args.all(), nil
	}
	nodes, err := args.nodes()
	if err != nil {
		return encoded{}, err
	}
	reasons, err := s.cfg.Nodes.Filter(ctx, pod, nodes)
	if err != nil {
		return encoded{}, err
	}
	return args.result(nodes, reasons), nil
}

// all is the result in which no node is refused.
func (a *nodeArgs) all() encoded {
	var w resultWriter
	if a.byName() {
		w.grow(len(a.NodeNames))
		w.raw(`{"NodeNames":`)
		w.bytes(a.NodeNames)
	} else {
		w.begin(a)
		for _, item := range a.Nodes.Items {
			w.item(item)
		}
		w.raw(`]}`)
	}
	w.raw(`,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}`)
	return encoded{body: w.out}
}

// result lists the nodes without a reason, and the others with theirs. All of
// these are unresolvable, which keeps the scheduler from preempting pods for
// nothing: that frees no volume.
func (a *nodeArgs) result(nodes []volumes.Node, reasons []string) encoded {
	var w resultWriter
	w.begin(a)
	for i, reason := range reasons {
		switch {
		case reason != "":
		case a.byName():
			w.name(nodes[i].Name)
		default:
			w.item(a.Nodes.Items[i])
		}
	}
	if a.byName() {
		w.raw(`]`)
	} else {
		w.raw(`]}`)
	}
	w.raw(`,"FailedNodes":{},"FailedAndUnresolvableNodes":{`)
	w.first = true
	for i, reason := range reasons {
		if reason != "" {
			w.pair(nodes[i].Name, reason)
		}
	}
	w.raw(`},"Error":""}`)
	return encoded{body: w.out}
}
