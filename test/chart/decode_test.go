package chart_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// Every field is one that its kind has.
func TestRenderedDecodesStrictly(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	eachCombination(t, func(t *testing.T, c combination) {
		for _, o := range rendered(t, c) {
			text, err := o.MarshalJSON()
			must(t, err)
			if !builtIn(o) {
				checkCustom(t, o, text)
				continue
			}
			if _, _, err := decoder.Decode(text, nil, nil); err != nil {
				t.Errorf("%s: %v", id(o), err)
			}
		}
	})
}

// The API server takes every object, with its own defaults and validation.
func TestRenderedIsAcceptedByTheAPIServer(t *testing.T) {
	cp := controlPlane(t)
	eachCombination(t, func(t *testing.T, c combination) {
		all := rendered(t, c)
		for _, o := range all {
			if o.GetKind() == "Service" && c.maximal && o.GetName() == c.fullname() { // its address is of another range
				must(t, unstructured.SetNestedField(o.Object, freeIP(t, 20), "spec", "clusterIP"))
			}
			if builtIn(o) && o.GetKind() != "Pod" {
				dryRun(t, cp, o)
			}
		}
		for _, p := range all.pods(t) {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Spec)
			must(t, err)
			fields["serviceAccountName"] = "default" // its own is not there
			delete(fields, "serviceAccount")
			pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": fields}}
			pod.SetNamespace(p.owner.GetNamespace())
			pod.SetName("pod-of-" + strings.ToLower(p.owner.GetKind()) + "-" + p.owner.GetName())
			dryRun(t, cp, pod)
		}
	})
}

// checkCustom checks an object of a kind that is no part of Kubernetes against
// the part of its schema that the chart may use.
func checkCustom(t *testing.T, o *unstructured.Unstructured, text []byte) {
	t.Helper()
	var into any
	switch kind := o.GroupVersionKind().String(); kind {
	case "cert-manager.io/v1, Kind=Certificate":
		into = &certificate{}
	case "cert-manager.io/v1, Kind=Issuer":
		into = &issuer{}
	case "monitoring.coreos.com/v1, Kind=ServiceMonitor", "monitoring.coreos.com/v1, Kind=PodMonitor":
		into = &monitor{}
	case "monitoring.coreos.com/v1, Kind=PrometheusRule":
		into = &prometheusRule{}
	default:
		t.Errorf("%s is of an unknown kind %s", id(o), kind)
		return
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	must(t, err)
	for _, err := range strict {
		t.Errorf("%s: %v", id(o), err)
	}
	if c, ok := into.(*certificate); ok {
		c.check(t, id(o))
	}
}

type custom struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

type issuerRef struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

// certificate has the fields of cert-manager's Certificate that it documents.
type certificate struct {
	custom `json:",inline"`
	Spec   struct {
		CommonName  string          `json:"commonName"`
		DNSNames    []string        `json:"dnsNames"`
		IPAddresses []string        `json:"ipAddresses"`
		Duration    metav1.Duration `json:"duration"`
		RenewBefore metav1.Duration `json:"renewBefore"`
		IsCA        bool            `json:"isCA"`
		SecretName  string          `json:"secretName"`
		IssuerRef   issuerRef       `json:"issuerRef"`
		Usages      []string        `json:"usages"`
		PrivateKey  struct {
			Algorithm      string `json:"algorithm"`
			Encoding       string `json:"encoding"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
	} `json:"spec"`
}

// check does what cert-manager's webhook would: it refuses others.
func (c *certificate) check(t *testing.T, name string) {
	t.Helper()
	known := []string{"digital signature", "server auth", "client auth", "cert sign", "key encipherment"}
	for _, usage := range c.Spec.Usages {
		if !slices.Contains(known, usage) {
			t.Errorf("%s: unknown usage %q", name, usage)
		}
	}
	if c.Spec.SecretName == "" || c.Spec.IssuerRef.Name == "" {
		t.Errorf("%s: secretName %q and issuerRef.name %q are both required", name, c.Spec.SecretName, c.Spec.IssuerRef.Name)
	}
	if c.Spec.CommonName == "" && len(c.Spec.DNSNames) == 0 {
		t.Errorf("%s: it names nobody", name)
	}
	if len(c.Spec.CommonName) > 64 {
		t.Errorf("%s: commonName %q is longer than 64 characters", name, c.Spec.CommonName)
	}
	if c.Spec.Duration.Duration <= c.Spec.RenewBefore.Duration {
		t.Errorf("%s: duration %s is not above renewBefore %s", name, c.Spec.Duration.Duration, c.Spec.RenewBefore.Duration)
	}
}

type issuer struct {
	custom `json:",inline"`
	Spec   struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// monitor has the fields of the Prometheus operator's ServiceMonitor and
// PodMonitor that it documents.
type monitor struct {
	custom `json:",inline"`
	Spec   struct {
		Selector            metav1.LabelSelector `json:"selector"`
		Endpoints           []monitorEndpoint    `json:"endpoints"`
		PodMetricsEndpoints []monitorEndpoint    `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type monitorEndpoint struct {
	Port              string           `json:"port"`
	Path              string           `json:"path"`
	Scheme            string           `json:"scheme"`
	Interval          string           `json:"interval"`
	MetricRelabelings []map[string]any `json:"metricRelabelings"`
}

// prometheusRule has the fields of the Prometheus operator's PrometheusRule that
// alerts need.
type prometheusRule struct {
	custom `json:",inline"`
	Spec   struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}
