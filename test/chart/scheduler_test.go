package chart_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

// The cluster's own scheduler, configured as the notes say: pods are bound
// through mTLS, nobody else may call, and new certificates are taken up by both
// sides as they run.
func TestClusterSchedulerWithNotes(t *testing.T) {
	eachHelm(t, func(t *testing.T, h helm) {
		r := install(t, h, "{}")
		prebind := r.startPrebind(r.ip())
		n := newNode(t, r.cp)
		notes := r.notes()
		n.fetchCertificates(notes)
		n.runScheduler(n.configOf(notes))
		r.bindsPods("first", "default-scheduler")
		checkRefusals(t, r, prebind)

		r.must("upgrade", r.name, shared.chart, "--reuse-values")
		prebind.sync()
		n.fetchCertificates(r.notes())
		serves(t, r)
		r.bindsPods("renewed", "default-scheduler")
		must(t, prebind.ended())
		r.nothingForbidden("prebind")
	})
}

// The same with `prebind scheduler-config`, as the notes say also.
func TestClusterSchedulerWithSchedulerConfig(t *testing.T) {
	r := install(t, helms()[1], "{}")
	r.startPrebind(r.ip())
	n := newNode(t, r.cp)
	n.fetchCertificates(r.notes())
	n.runScheduler(n.sh("prebind scheduler-config --from-service " + r.namespace + "/prebind --for kubeadm"))
	r.bindsPods("generated", "default-scheduler")
}

// With certificates of the user's own.
func TestClusterSchedulerWithExistingSecret(t *testing.T) {
	cp := controlPlane(t)
	namespace, err := cp.CreateNamespace(t.Context(), "chart")
	must(t, err)
	own := newAuthority(t)
	for name, data := range map[string]map[string][]byte{
		"my-server": own.issue(t, "prebind", "prebind."+namespace+".svc"),
		"my-client": own.issue(t, "prebind-scheduler-client"),
	} {
		must(t, cp.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS, Data: data,
		}))
	}
	r := installIn(t, helms()[0], "prebind", namespace, "tls: {type: existingSecret, existingSecret: {server: my-server, client: my-client}}")
	r.startPrebind(r.ip())
	n := newNode(t, cp)
	notes := r.notes()
	n.fetchCertificates(notes)
	n.runScheduler(n.configOf(notes))
	r.bindsPods("own", "default-scheduler")
}

// With certificates of cert-manager, which the test plays: it makes the Secrets
// that the Certificates ask for.
func TestClusterSchedulerWithCertManager(t *testing.T) {
	r := install(t, helms()[1], "tls: {type: cert-manager}")
	list, err := r.cp.Dynamic().Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}).
		Namespace(r.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	ca := newAuthority(t)
	for _, o := range list.Items {
		spec := decode[certificate](t, &o).Spec
		must(t, r.cp.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: spec.SecretName}, Type: corev1.SecretTypeTLS,
			Data: ca.issue(t, spec.CommonName, spec.DNSNames...),
		}))
	}
	r.startPrebind(r.ip())
	n := newNode(t, r.cp)
	notes := r.notes()
	n.fetchCertificates(notes)
	n.runScheduler(n.configOf(notes))
	r.bindsPods("certmanager", "default-scheduler")
}

// Beside the scheduler, on loopback, with and without TLS.
func TestClusterSchedulerOnLoopback(t *testing.T) {
	for i, tls := range []string{"none", "helm"} {
		t.Run("tls "+tls, func(t *testing.T) {
			ports := freePorts(t, 2)
			r := install(t, helms()[i], fmt.Sprintf(
				"{mode: daemonset, tls: {type: %s}, config: {server: {address: '127.0.0.1:%d', opsAddress: '127.0.0.1:%d'}}}", tls, ports[0], ports[1]))
			r.startPrebind("127.0.0.1")
			n := newNode(t, r.cp)
			notes := r.notes()
			if tls != "none" {
				n.fetchCertificates(notes)
			}
			n.runScheduler(n.configOf(notes))
			r.bindsPods("loopback", "default-scheduler")
		})
	}
}

// freePorts returns ports that nobody listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	var held []net.Listener // until all are found: they must differ
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		held = append(held, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	for _, listener := range held {
		must(t, listener.Close())
	}
	return ports
}

// The chart's own scheduler, as its Deployment says, for pods that name it.
func TestSecondScheduler(t *testing.T) {
	_, err := programs.Ensure(t.Context(), programs.Config{}, programs.Scheduler)
	must(t, err)
	for i, mode := range []string{"bind", "stock"} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			name := mode + "-scheduler"
			r := install(t, helms()[i], fmt.Sprintf("scheduler: {enabled: true, mode: %s, name: %s}", mode, name))
			r.startPrebind(r.ip())
			second := r.deployment("prebind-scheduler").Spec.Template.Spec
			runContainer(t, r.cp, r.namespace, second, "kube-scheduler", r.ip())
			r.bindsPods("second", name)
			eventually(t, "the scheduler has renewed its Lease", func(ctx context.Context) error {
				lease, err := r.cp.Client().CoordinationV1().Leases(r.namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				return renewed(lease)
			})
			r.nothingForbidden("prebind-scheduler")
			r.nothingForbidden("prebind")
		})
	}
}

func renewed(lease *coordinationv1.Lease) error {
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.AcquireTime == nil || !spec.RenewTime.After(spec.AcquireTime.Time) {
		return fmt.Errorf("Lease %s: holder %v, acquired %v, renewed %v", lease.Name, spec.HolderIdentity, spec.AcquireTime, spec.RenewTime)
	}
	return nil
}

// nothingForbidden checks that an account had every right that its program used.
func (r *release) nothingForbidden(account string) {
	r.t.Helper()
	user := fmt.Sprintf("system:serviceaccount:%s:%s", r.namespace, account)
	events, err := r.cp.Audit(r.t.Context(), controlplane.AuditFilter{User: user, Code: http.StatusForbidden})
	must(r.t, err)
	if len(events) > 0 {
		r.t.Errorf("%s was forbidden what it asked for:\n%s", user, controlplane.DescribeAudit(events))
	}
}
