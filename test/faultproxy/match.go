package faultproxy

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Groups of verbs, for Match.Verb.
const (
	Writes = "writes" // create, update, patch, delete, deletecollection
	Reads  = "reads"  // get, list
)

// Match picks requests. Empty fields match anything.
type Match struct {
	// Verb is one of get, list, watch, create, update, patch, delete,
	// deletecollection, Writes, Reads.
	Verb string
	// Resource is the plural name, with its subresource if it has one:
	// "pods/binding". "pods" is pods alone.
	Resource  string
	Namespace string
	Name      string
}

func (m Match) matches(r *Request) bool {
	return m.matchesVerb(r.Verb) &&
		(m.Resource == "" || m.Resource == r.Resource) &&
		(m.Namespace == "" || m.Namespace == r.Namespace) &&
		(m.Name == "" || m.Name == r.Name)
}

func (m Match) matchesVerb(verb string) bool {
	switch m.Verb {
	case "", verb:
		return true
	case Writes:
		return isWrite(verb)
	case Reads:
		return verb == "get" || verb == "list"
	default:
		return false
	}
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	default:
		return false
	}
}

// parse names the request as the API server would.
func parse(r *http.Request) (Request, error) {
	resolver := &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		return Request{}, err
	}
	named := Request{Verb: info.Verb, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name}
	if info.Subresource != "" {
		named.Resource += "/" + info.Subresource
	}
	if !info.IsResourceRequest {
		named.Resource = strings.TrimPrefix(info.Path, "/")
	}
	return named, nil
}
