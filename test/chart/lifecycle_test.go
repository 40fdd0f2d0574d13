package chart_test

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"

	"github.com/prebind/prebind/test/controlplane"
)

// A release's whole life, beside another one.
func TestLifeOfARelease(t *testing.T) {
	eachHelm(t, func(t *testing.T, h helm) {
		t.Parallel()
		r := install(t, h, "scheduler: {enabled: true}")
		other := installIn(t, h, "blue", r.namespace, "scheduler: {enabled: true, name: blue-scheduler}")
		first := r.certificates()
		first.check(t, r.namespace)
		others := objectsOf(t, r.cp, other)
		if len(others) == 0 || len(others) != len(objectsOf(t, r.cp, r)) {
			t.Errorf("the releases have %d and %d objects, want equally many", len(others), len(objectsOf(t, r.cp, r)))
		}

		r.must("upgrade", r.name, shared.chart, "--values", r.values("replicas: 3"), "--reuse-values")
		second := r.certificates()
		second.check(t, r.namespace)
		if !bytes.Equal(first.ca, second.ca) {
			t.Error("the upgrade has made a new CA")
		}
		if first.server.SerialNumber.Cmp(second.server.SerialNumber) == 0 || first.client.SerialNumber.Cmp(second.client.SerialNumber) == 0 {
			t.Error("the upgrade has kept a certificate")
		}
		if got := *r.deployment("prebind").Spec.Replicas; got != 3 {
			t.Errorf("%d replicas after the upgrade, want 3", got)
		}

		// What cannot be changed is refused before anything is.
		if _, err := r.run("upgrade", r.name, shared.chart, "--reuse-values", "--set", "service.clusterIP="+freeIP(t, 30)); err == nil ||
			!strings.Contains(err.Error(), "service.clusterIP: the Service has "+r.ip()) {
			t.Errorf("an upgrade to another clusterIP: %v, want a refusal that tells the present one", err)
		}

		r.must("rollback", r.name, "1")
		if got := *r.deployment("prebind").Spec.Replicas; got != 2 {
			t.Errorf("%d replicas after the rollback, want 2", got)
		}
		third := r.certificates()
		third.check(t, r.namespace)
		if !bytes.Equal(first.ca, third.ca) {
			t.Error("the rollback has brought another CA")
		}

		r.must("uninstall", r.name)
		if left := objectsOf(t, r.cp, r); len(left) > 0 {
			t.Errorf("uninstall has left %v", left)
		}
		if diff := cmp.Diff(others, objectsOf(t, r.cp, other)); diff != "" {
			t.Errorf("the other release before (-) and after (+):\n%s", diff)
		}
	})
}

// With tls.helm.keepCA the next release of the name has the same CA.
func TestLifeOfAKeptCA(t *testing.T) {
	eachHelm(t, func(t *testing.T, h helm) {
		t.Parallel()
		r := install(t, h, "tls: {helm: {keepCA: true}}")
		before := r.certificates()
		r.must("uninstall", r.name)
		if diff := cmp.Diff([]string{"Secret " + r.namespace + "/prebind-ca"}, objectsOf(t, r.cp, r)); diff != "" {
			t.Errorf("after uninstall (-want +got):\n%s", diff)
		}
		r.must("install", r.name, shared.chart)
		after := r.certificates()
		after.check(t, r.namespace)
		if !bytes.Equal(before.ca, after.ca) {
			t.Error("the next installation has another CA")
		}
	})
}

// certificates are what a release with tls.type helm has.
type certificates struct {
	ca             []byte
	server, client *x509.Certificate
	authority      *x509.Certificate
}

func (r *release) certificates() certificates {
	r.t.Helper()
	ca, server, client := r.secret("prebind-ca"), r.secret("prebind-tls"), r.secret("prebind-client")
	for name, secret := range map[string]map[string][]byte{"prebind-tls": server, "prebind-client": client} {
		if !bytes.Equal(ca["ca.crt"], secret["ca.crt"]) {
			r.t.Errorf("Secret %s has another CA than prebind-ca", name)
		}
		if _, found := secret["ca.key"]; found {
			r.t.Errorf("Secret %s has the CA's key", name)
		}
	}
	return certificates{
		ca: ca["ca.crt"], authority: parseCertificate(r.t, ca["ca.crt"]),
		server: parseCertificate(r.t, server["tls.crt"]), client: parseCertificate(r.t, client["tls.crt"]),
	}
}

func parseCertificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(text)
	must(t, err)
	return all[0]
}

// check verifies both certificates as their peers do, and that the CA outlives them by far.
func (c certificates) check(t *testing.T, namespace string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(c.authority)
	for _, name := range []string{
		"prebind." + namespace + ".svc", "prebind." + namespace + ".svc.cluster.local", "prebind." + namespace, "localhost", "127.0.0.1",
	} {
		if _, err := c.server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("the server certificate for %s: %v", name, err)
		}
	}
	asClient := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := c.client.Verify(asClient); err != nil {
		t.Errorf("the client certificate: %v", err)
	}
	if got, want := c.client.Subject.CommonName, "prebind-scheduler-client"; got != want {
		t.Errorf("the client's name is %q, want %q", got, want)
	}
	const year = 365 * 24 * time.Hour
	if !c.authority.IsCA || c.authority.NotAfter.Before(time.Now().Add(9*year)) {
		t.Errorf("the CA: isCA %t, until %s; want a CA for 10 years", c.authority.IsCA, c.authority.NotAfter)
	}
	if left := time.Until(c.server.NotAfter); left < year/2 || left > 2*year {
		t.Errorf("the server certificate ends on %s, want a year", c.server.NotAfter)
	}
}

// objectsOf lists what a release has in the cluster, found by its label.
func objectsOf(t *testing.T, cp *controlplane.ControlPlane, r *release) []string {
	t.Helper()
	var found []string
	for _, kind := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
	} {
		selector := "app.kubernetes.io/instance=" + r.name
		list, err := cp.Dynamic().Resource(kind).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		must(t, err)
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() == nil && belongs(&o, r) {
				found = append(found, id(&o))
			}
		}
	}
	slices.Sort(found)
	return found
}

// belongs tells a release from another one with its name.
func belongs(o *unstructured.Unstructured, r *release) bool {
	return o.GetNamespace() == r.namespace || strings.HasPrefix(o.GetName(), r.namespace+":") || strings.HasPrefix(o.GetName(), r.namespace+"-")
}

// A cluster-wide name that somebody else has is not taken over.
func TestLifeDoesNotTakeOthersObjects(t *testing.T) {
	cp := controlPlane(t)
	namespace, err := cp.CreateNamespace(t.Context(), "chart")
	must(t, err)
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "prebind"}, Data: map[string]string{"mine": "yes"}}
	_, err = cp.Client().CoreV1().ConfigMaps(namespace).Create(t.Context(), mine, metav1.CreateOptions{})
	must(t, err)
	r := &release{t: t, cp: cp, helm: helms()[0], name: "prebind", namespace: namespace}
	if out, err := r.run("install", r.name, shared.chart); err == nil {
		t.Fatalf("installed over another ConfigMap:\n%s", out)
	}
	_, err = cp.Client().AppsV1().Deployments(namespace).Get(t.Context(), "prebind", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the refused installation has made a Deployment: %v", err)
	}
}
