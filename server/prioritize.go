package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// prioritizeVerb is POST /v1/prioritize. A list of scores has no place for an
// error, so that one has another status, the only way for kube-scheduler to
// see it: it then leaves us out and goes by the other scores.
func (s *Server) prioritizeVerb() verb[nodeArgs, encoded] {
	return verb[nodeArgs, encoded]{
		path:     pathPrioritize,
		maxBytes: s.cfg.MaxFilterBytes,
		call:     s.prioritize,
		fail: func(err error) encoded {
			failed := encode(struct{ Error string }{fault.Text(err)})
			failed.code = http.StatusInternalServerError
			return failed
		},
	}
}

// prioritize answers a HostPriorityList with all the nodes.
func (s *Server) prioritize(ctx context.Context, _ string, args *nodeArgs) (encoded, error) {
	pod, err := args.pod()
	if err != nil {
		return encoded{}, err
	}
	if !volumes.HasClaims(pod) {
		return encoded{body: []byte("[]")}, nil // as good as nothing for each
	}
	nodes, err := args.nodes()
	if err != nil {
		return encoded{}, err
	}
	scores, err := s.cfg.Nodes.Score(ctx, pod, nodes)
	if err != nil {
		return encoded{}, err
	}
	w := resultWriter{first: true}
	w.grow(len(args.NodeNames) + 24*len(nodes))
	w.raw("[")
	for i := range nodes {
		w.comma()
		w.raw(`{"Host":`)
		w.out = appendQuoted(w.out, nodes[i].Name)
		w.raw(`,"Score":`)
		w.out = strconv.AppendInt(w.out, scores[i], 10)
		w.raw("}")
	}
	w.raw("]")
	return encoded{body: w.out}, nil
}
