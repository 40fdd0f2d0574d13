package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// fieldManager names us in the objects that we apply.
const fieldManager = "prebind-test"

// ApplyManifests applies YAML files, and the files of folders in the order of
// their names, by server-side apply. Objects that name no namespace go into
// "default".
func (cp *ControlPlane) ApplyManifests(ctx context.Context, paths ...string) error {
	files, err := manifestFiles(paths)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading manifests: %w", err)
		}
		if err := cp.ApplyManifestText(ctx, text); err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return nil
}

// ApplyManifestText applies the objects of one or more YAML documents by
// server-side apply, in their order.
func (cp *ControlPlane) ApplyManifestText(ctx context.Context, text []byte) error {
	objects, err := parseManifest(text)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := cp.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (cp *ControlPlane) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := cp.resource(object)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// resource returns the client for an object.
func (cp *ControlPlane) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := cp.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	client := cp.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return client.Namespace(object.GetNamespace()), nil
}

// Create creates objects of the Kubernetes API in the given order. It stops at
// the first error.
func (cp *ControlPlane) Create(ctx context.Context, objects ...runtime.Object) error {
	for _, object := range objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return fmt.Errorf("creating an object: %w", err)
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("creating a %s: %w", kinds[0].Kind, err)
		}
		u := &unstructured.Unstructured{Object: fields}
		u.SetGroupVersionKind(kinds[0])
		resource, err := cp.resource(u)
		if err != nil {
			return err
		}
		if _, err := resource.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
			return fmt.Errorf("creating %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// manifestFiles lists the files of paths, folders expanded.
func manifestFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path) // sorted
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		for _, entry := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, nil
}

// parseManifest returns the objects of one or more YAML documents.
func parseManifest(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		var fields map[string]any
		err := decoder.Decode(&fields)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parsing a manifest: %w", err)
		}
		if len(fields) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: fields})
		}
	}
}
