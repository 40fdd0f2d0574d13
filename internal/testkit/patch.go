package testkit

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

func (s *store) patch(resource string, action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.PatchType != types.MergePatchType {
		return nil, fmt.Errorf("testkit: patches of type %s are not served", action.PatchType)
	}
	var decided metav1.PartialObjectMetadata
	if err := json.Unmarshal(action.Patch, &decided); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := s.check(resource, action.Name, &decided); err != nil {
		return nil, err
	}
	current := s.objects[resource][action.Name]
	before, err := json.Marshal(current)
	if err != nil {
		return nil, err
	}
	merged, err := jsonpatch.MergePatch(before, action.Patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(current)
	if err != nil {
		return nil, err
	}
	patched, err := scheme.Scheme.New(gvks[0])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(merged, patched); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	confine(current, patched, action.Subresource)
	if !apiequality.Semantic.DeepEqual(current, patched) { // else nothing changes, as in the real one
		s.put(resource, patched)
	}
	return s.get(resource, action.Name)
}

// confine undoes what a patch may not change: the status, or, through the
// subresource, the rest.
func confine(current, patched runtime.Object, subresource string) {
	switch now := current.(type) {
	case *v1.Pod:
		to := patched.(*v1.Pod)
		if subresource == "status" {
			to.Spec = *now.Spec.DeepCopy()
		} else {
			to.Status = *now.Status.DeepCopy()
		}
	case *v1.PersistentVolume:
		to := patched.(*v1.PersistentVolume)
		if subresource == "status" {
			to.Spec = *now.Spec.DeepCopy()
		} else {
			to.Status = *now.Status.DeepCopy()
		}
	case *v1.PersistentVolumeClaim:
		to := patched.(*v1.PersistentVolumeClaim)
		if subresource == "status" {
			to.Spec = *now.Spec.DeepCopy()
		} else {
			to.Status = *now.Status.DeepCopy()
		}
	}
}
