package fault

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// FromAPI turns an error of the API server into an Error that names what was
// refused: the verb, the resource with its subresource, and the object.
func FromAPI(err error, verb, resource, name string) *Error {
	switch {
	case apierrors.IsForbidden(err):
		return New(Forbidden, "%s %s %s: RBAC refuses it; give prebind's ServiceAccount the rights of its manifest: %w", verb, resource, name, err)
	case apierrors.IsConflict(err):
		return New(Conflict, "%s %s %s: others keep writing it: %w", verb, resource, name, err)
	}
	return New(APIError, "%s %s %s: %w", verb, resource, name, err)
}
