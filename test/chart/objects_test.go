package chart_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// objects are what a chart renders.
type objects []*unstructured.Unstructured

// parse takes the documents of a manifest apart.
func parse(t *testing.T, manifest string) objects {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifest), 4096)
	var all objects
	for {
		var fields map[string]any
		err := decoder.Decode(&fields)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("parsing what was rendered: %v\n%s", err, manifest)
		}
		if len(fields) > 0 {
			all = append(all, &unstructured.Unstructured{Object: fields})
		}
	}
}

// id names an object for people.
func id(o *unstructured.Unstructured) string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()), "/")
}

// find returns the object of a kind and name, nil when there is none.
func (all objects) find(kind, name string) *unstructured.Unstructured {
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

// get decodes the object of a kind and name, which must be there.
func get[T any](t *testing.T, all objects, kind, name string) *T {
	t.Helper()
	o := all.find(kind, name)
	if o == nil {
		t.Fatalf("there is no %s %s, only %s", kind, name, all)
	}
	return decode[T](t, o)
}

func decode[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		t.Fatalf("decoding %s: %v", id(o), err)
	}
	return into
}

func (all objects) String() string {
	var ids []string
	for _, o := range all {
		ids = append(ids, id(o))
	}
	return strings.Join(ids, ", ")
}

// podTemplate is a pod that the chart makes, by itself or as a workload's template.
type podTemplate struct {
	owner *unstructured.Unstructured
	corev1.PodTemplateSpec
}

// pods returns the pods of all workloads.
func (all objects) pods(t *testing.T) []podTemplate {
	t.Helper()
	var found []podTemplate
	for _, o := range all {
		switch o.GetKind() {
		case "Pod":
			pod := decode[corev1.Pod](t, o)
			found = append(found, podTemplate{o, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}})
		case "Deployment", "DaemonSet":
			fields, _, err := unstructured.NestedMap(o.Object, "spec", "template")
			must(t, err)
			template := decode[corev1.PodTemplateSpec](t, &unstructured.Unstructured{Object: fields})
			found = append(found, podTemplate{o, *template})
		}
	}
	return found
}

// builtIn tells whether the Kubernetes API has the object's kind.
func builtIn(o *unstructured.Unstructured) bool {
	group := o.GroupVersionKind().Group
	return !slices.Contains([]string{"cert-manager.io", "monitoring.coreos.com"}, group)
}

// clusterWide tells whether objects of a kind have no namespace.
func clusterWide(kind string) bool {
	return slices.Contains([]string{"ClusterRole", "ClusterRoleBinding", "FlowSchema"}, kind)
}
