package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/test/programs"
	"github.com/prebind/prebind/test/provisioner"
)

// userPrograms are what people run.
var userPrograms = sync.OnceValues(func() (programs.Set, error) {
	return programs.Ensure(context.Background(), programs.Config{Out: os.Stderr}, programs.Prebind, programs.Kubectl)
})

// explainer runs the program as a user with the rights of examples/explain-rbac.yaml.
type explainer struct {
	*fixture
	programs   programs.Set
	kubeconfig string
}

func newExplainer(t *testing.T) *explainer {
	t.Helper()
	f := newFixture(t)
	set, err := userPrograms()
	f.must(err)
	e := &explainer{fixture: f, programs: set}
	role := &rbacv1.ClusterRole{}
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "explain-rbac.yaml"))
	f.must(err)
	f.must(yaml.UnmarshalStrict(text, role))
	e.kubeconfig = e.user("reader", role.Rules)
	return e
}

// user makes a user with rights in the whole cluster, and returns its kubeconfig.
func (e *explainer) user(name string, rules []rbacv1.PolicyRule) string {
	e.t.Helper()
	meta := metav1.ObjectMeta{Name: e.name(name)}
	_, err := e.client.RbacV1().ClusterRoles().Create(e.ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	e.must(err)
	e.cleanup(func(ctx context.Context) error {
		return e.client.RbacV1().ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{})
	})
	_, err = e.client.CoreV1().ServiceAccounts(e.ns).Create(e.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	e.must(err)
	_, err = e.client.RbacV1().ClusterRoleBindings().Create(e.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.ns, Name: name}},
	}, metav1.CreateOptions{})
	e.must(err)
	e.cleanup(func(ctx context.Context) error {
		return e.client.RbacV1().ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})
	})
	kubeconfig, err := shared.cp.WriteKubeconfigForServiceAccount(e.ctx, e.ns, name)
	e.must(err)
	return kubeconfig
}

// run runs a program and returns its exit code and output.
func (e *explainer) run(env []string, program string, args ...string) (code int, stdout, stderr string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Env, command.Stdout, command.Stderr = env, &out, &errs
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), errs.String()
	}
	e.must(err)
	return 0, out.String(), errs.String()
}

func (e *explainer) explain(args ...string) (code int, stdout, stderr string) {
	e.t.Helper()
	return e.run(os.Environ(), e.programs.Path(programs.Prebind), slices.Concat([]string{"explain", "pod", "--kubeconfig", e.kubeconfig}, args)...)
}

// report explains the pod.
func (e *explainer) report(pod *v1.Pod, args ...string) *explain.Report {
	e.t.Helper()
	args = append([]string{e.ns + "/" + pod.Name}, args...)
	code, output, errs := e.explain(append(args, "-o", "json")...)
	if code != 0 || errs != "" {
		e.t.Fatalf("exit code %d: %s", code, errs)
	}
	report := &explain.Report{}
	if err := json.Unmarshal([]byte(output), report); err != nil {
		e.t.Fatalf("no JSON: %v\n%s", err, output)
	}
	if len(report.Missing) > 0 {
		e.t.Errorf("rights are missing: %v", report.Missing)
	}
	return report
}

// wants checks the pod's only claim, and parts of the verdict, its reasons, and what
// to do.
func (e *explainer) wants(report *explain.Report, state, verdict, reason, next string) {
	e.t.Helper()
	if !strings.Contains(report.Verdict, verdict) {
		e.t.Errorf("verdict lacks %q: %s", verdict, report.Verdict)
	}
	c := report.Claims[0]
	if c.Claim != e.ns+"/data" || c.State != state {
		e.t.Errorf("claim %s is %s, want %s/data %s", c.Claim, c.State, e.ns, state)
	}
	if text := strings.Join(c.Reasons, "\n"); !strings.Contains(text, reason) {
		e.t.Errorf("reasons lack %q:\n%s", reason, text)
	}
	if !strings.Contains(report.Next, next) {
		e.t.Errorf("next lacks %q: %s", next, report.Next)
	}
}

// stays makes a pod that may go to the fixture's nodes only.
func (e *explainer) stays(claims ...string) *v1.Pod {
	pod := newPod("web", nobody, claims...)
	pod.Spec.NodeSelector = map[string]string{"test": e.ns}
	return e.pod(pod)
}

func TestExplainNoFittingVolume(t *testing.T) { // not parallel: see shows
	e := newExplainer(t)
	a, b := e.node("a", nil), e.node("b", nil)
	class := e.class(newLocalClass("local"))
	e.volume(newVolume("small", class, a, capacity("512Mi")))
	e.volume(newVolume("block", class, b, func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock) }))
	e.claim(newClaim("data", class))
	pod := e.stays("data")

	for node, reason := range map[string]string{a: "too small: " + e.name("small") + " (it has 512Mi, the claim asks for 1Gi)", b: "of another volume mode: " + e.name("block")} {
		e.refused(pod, node, "NoVolume") // as explain says
		report := e.report(pod, "--node", node)
		e.wants(report, "Pending", "no available volume fits claim data (1Gi, class "+class+") on node "+node, reason, "Create a volume of class "+class+", 1Gi or more, ReadWriteOnce, that node "+node+" can reach")
		if on := report.Claims[0].OnNode; on.Code != "NoVolume" {
			t.Errorf("on node %s: %+v", node, on)
		}
	}
	e.shows("no-fitting-volume", pod)
	e.shows("no-fitting-volume-on-a-node", pod, "--node", a)

	e.volume(newVolume("good", class, b))
	report := e.report(pod)
	if n := report.Nodes; n.Fitting != 1 || n.Considered != 2 || n.Nodes[0].Node != b || n.Nodes[0].Fits != "yes" || n.Nodes[0].Claims[0].Volume != e.name("good") {
		t.Errorf("nodes %+v", n)
	}
	e.shows("all-nodes", pod, "--all-nodes")
	e.mustBind(pod, b) // as explain says
	report = e.report(pod)
	e.wants(report, "Bound", "all its claims are bound, and it is on node "+b, "", "Nothing")
	if len(report.Claims[0].Reasons) > 0 || report.Target.Node != b {
		t.Errorf("looked at %+v, reasons %q", report.Target, report.Claims[0].Reasons)
	}
}

func TestExplainProvisionerFails(t *testing.T) { // not parallel: see shows
	e := newExplainer(t)
	node := e.node("a", nil)
	e.claim(newClaim("data", e.dynamic("fast", failing(1000, "quota exceeded"))))
	pod := e.stays("data")
	e.refused(pod, node, "ProvisioningFailed", "quota exceeded")
	e.eventually("prebind's own event is there", func() bool { return len(e.report(pod).Events) > 0 })
	report := e.report(pod)
	e.wants(report, "Pending", "provisioner "+shared.disks.Name()+" failed to make a volume for claim data", "quota exceeded", "Mend what the provisioner complains of")
	if report.Nodes.Fitting != 1 {
		t.Errorf("nodes %+v: the provisioner may well succeed the next time", report.Nodes)
	}
	e.shows("provisioner-fails", pod)
}

func TestExplainSelectedNodeDeleted(t *testing.T) { // not parallel: see shows
	e := newExplainer(t)
	old, b := e.node("old", nil), e.node("b", nil)
	e.claim(newClaim("data", e.dynamic("held", params(provisioner.Hold, "true"))))
	pod := e.stays("data")
	answer := e.start(pod, old)
	e.awaitAttempt("data", 1)
	during := e.report(pod)
	e.wants(during, "Provisioning", "claim data waits for provisioner", "to make a volume for node "+old, "see whether provisioner "+shared.disks.Name()+" runs")
	if during.Target.Node != old || during.Claims[0].OnNode.Outcome != "provision" {
		t.Errorf("looked at %+v: %+v", during.Target, during.Claims[0].OnNode)
	}
	e.removeNode(old)
	e.checkRefused(e.answer(answer), "NodeNotFound", old)

	report := e.report(pod)
	e.wants(report, "Provisioning", "claim data is being provisioned for node "+old+", which does not exist any more", "node "+old+", for which it is being provisioned (annotation selected-node), does not exist", "kubectl annotate pvc data --namespace "+e.ns)
	if report.Target.Gone != old || report.Nodes.Fitting != 0 {
		t.Errorf("looked at %+v: %+v", report.Target, report.Nodes)
	}
	e.shows("selected-node-deleted", pod)
	shared.disks.Release(e.ns, "data") // it fails: the node is gone
	e.bindsInTheEnd(pod, b, "SelectedNodeConflict", "ProvisioningFailed")
}

func TestExplainLostClaim(t *testing.T) { // not parallel: see shows
	e := newExplainer(t)
	node := e.node("a", nil)
	class := e.class(newLocalClass("local"))
	pv := e.volume(newVolume("disk", class, node))
	e.claim(newClaim("data", class))
	e.mustBind(e.pod(newPod("first", nobody, "data")), node)
	e.removeVolume(pv.Name)
	e.eventually("the claim is lost", func() bool { return e.getClaim("data").Status.Phase == v1.ClaimLost })
	pod := e.stays("data")
	e.refused(pod, node, "ClaimLost")
	report := e.report(pod, "--node", node)
	e.wants(report, "Lost", "claim data is Lost: its volume "+pv.Name+" does not exist any more", pv.Name, "create a PersistentVolume "+pv.Name+" for it, with `claimRef: {namespace: "+e.ns+", name: data, uid: ")
	e.shows("lost-claim", pod)

	again := newVolume("disk", class, node) // as explain says
	again.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: e.ns, Name: "data", UID: e.getClaim("data").UID}
	e.volume(again)
	e.eventually("the claim is bound again", func() bool { return e.getClaim("data").Status.Phase == v1.ClaimBound })
	e.mustBind(pod, node)
}

func TestExplainCapacityMissing(t *testing.T) { // not parallel: see shows
	e := newExplainer(t)
	node := e.node("a", map[string]string{zone: "a"})
	drivers := e.client.StorageV1().CSIDrivers()
	driver, err := drivers.Create(e.ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: e.name("csi")}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)},
	}, metav1.CreateOptions{})
	e.must(err)
	e.cleanup(func(ctx context.Context) error { return drivers.Delete(ctx, driver.Name, metav1.DeleteOptions{}) })
	class := e.class(newClass("csi", driver.Name, waits))
	e.claim(newClaim("data", class))
	pod := e.stays("data")
	e.wants(e.report(pod), "Pending", "not enough free storage for claim data (1Gi, class "+class+") on node "+node+": driver "+driver.Name+" reports none", "node(s) did not have enough free storage", "--enable-capacity")

	e.capacity(class, capacityObject{free: "512Mi", nodes: &metav1.LabelSelector{MatchLabels: map[string]string{zone: "a"}}})
	e.wants(e.report(pod, "--node", node), "Pending", "on node "+node+": 512Mi is the most", "512Mi is the most that is reported", "Free or add storage there")
	e.shows("capacity-missing", pod)
}
