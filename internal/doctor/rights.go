package doctor

import (
	"slices"
	"strings"
)

// Right is what prebind must be allowed on one resource, in all namespaces.
type Right struct {
	// Group is the API group, "" for the core one.
	Group string
	// Resource is plural; Subresource is mostly empty.
	Resource, Subresource string
	Verbs                 []string
	// Namespaced tells whether objects of the resource live in namespaces.
	Namespaced bool
	// Without says what does not work without the right; more, where it is about
	// a verb, says without.
	Without string
}

// Features are what costs prebind more rights than it needs for all else.
type Features struct {
	// Direct is volumes.staticCompletion: Direct.
	Direct bool
	// Nominate is volumes.nominateWhileWaiting.
	Nominate bool
	// Events is events.enabled.
	Events bool
}

// Rights are those of examples/rbac.yaml, in its order, and then those that only the
// features need.
func Rights(f Features) []Right {
	read := []string{"get", "list", "watch"}
	readAndPatch := []string{"get", "list", "watch", "patch"}
	const storage = "storage.k8s.io"
	rights := []Right{
		{Resource: "pods", Verbs: read, Namespaced: true},
		{Resource: "nodes", Verbs: read},
		{Resource: "persistentvolumeclaims", Verbs: readAndPatch, Namespaced: true, Without: "no volume is provisioned for a pod: bind calls end with Forbidden"},
		{Resource: "persistentvolumes", Verbs: readAndPatch, Without: "no pod gets a volume that exists already: bind calls end with Forbidden"},
		{Group: storage, Resource: "storageclasses", Verbs: read},
		{Group: storage, Resource: "csinodes", Verbs: read},
		{Group: storage, Resource: "csidrivers", Verbs: read},
		{Group: storage, Resource: "csistoragecapacities", Verbs: read, Namespaced: true},
		{Resource: "pods", Subresource: "binding", Verbs: []string{"create"}, Namespaced: true, Without: "no pod is bound at all, volumes or not"},
		{Resource: "events", Verbs: []string{"list"}, Namespaced: true, Without: "errors do not tell why a provisioner failed"},
	}
	if f.Events {
		rights = append(rights, Right{
			Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Namespaced: true,
			Without: "pods and claims do not show what prebind waits for, nor why it failed",
		})
	}
	if f.Direct {
		rights = append(rights, Right{
			Resource: "persistentvolumes", Subresource: "status", Verbs: []string{"patch"},
			Without: "staticCompletion: Direct leaves every claim to the PV controller, and pods wait for it",
		})
	}
	if f.Nominate {
		rights = append(rights, Right{
			Resource: "pods", Subresource: "status", Verbs: []string{"patch"}, Namespaced: true,
			Without: "nominateWhileWaiting has no effect: no pod that waits shows the node it will be on",
		})
	}
	return rights
}

// without says what does not work without these verbs of the right.
func (r Right) without(verbs []string) string {
	unready := r.Resource != "events" && (slices.Contains(verbs, "list") || slices.Contains(verbs, "watch"))
	var losses []string
	if unready {
		losses = append(losses, "prebind does not become ready, and no pod is bound")
	}
	for _, verb := range verbs {
		switch {
		case unready && verb != "patch":
		case verb == "get":
			losses = append(losses, "bind calls end with Forbidden where prebind has to read more than its cache shows")
		case !slices.Contains(losses, r.Without):
			losses = append(losses, r.Without)
		}
	}
	return "Without it " + strings.Join(losses, "; and ") + "."
}

// questions are the commands that ask for these verbs of the right.
func (r Right) questions(verbs []string, user string) string {
	var lines []string
	for _, verb := range verbs {
		line := "kubectl auth can-i " + verb + " " + r.String()
		if r.Namespaced {
			line += " --all-namespaces"
		}
		lines = append(lines, line+" --as="+user)
	}
	return strings.Join(lines, "\n")
}

// String names the resource as kubectl does.
func (r Right) String() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}
