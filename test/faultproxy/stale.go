package faultproxy

import (
	"net/http"
	"net/url"
)

// refusesStream tells whether the request is a streaming list of a resource
// whose lists are to be stale.
func (p *Proxy) refusesStream(r *Request) bool {
	if r.Verb != "watch" || p.staleVersion(r.Resource) == "" {
		return false
	}
	query, err := url.ParseQuery(r.Query)
	return err == nil && query.Get("sendInitialEvents") == "true"
}

func (p *Proxy) staleVersion(resource string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stale[resource]
}

// makeStale asks for the state at one resourceVersion, if the resource's lists
// are to be stale.
func (p *Proxy) makeStale(r *http.Request, request *Request) *http.Request {
	version := p.staleVersion(request.Resource)
	if version == "" {
		return r
	}
	query := r.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}
