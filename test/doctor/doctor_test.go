package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/doctor"
	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/programs"
)

const account = "kube-system/prebind"

// local makes a node, a class of local volumes, a volume and a claim, and
// returns a pod that needs them.
func (f *fixture) local() *v1.Pod {
	f.t.Helper()
	node := f.ns + "-node"
	f.create(build.Node(node).Obj(), build.Class(f.ns).Obj(),
		build.Volume(f.ns+"-disk-1").Class(f.ns).OnNode(node).Obj(),
		build.Volume(f.ns+"-disk-2").Class(f.ns).OnNode(node).Obj(),
		build.Claim(f.ns, "data").Class(f.ns).Obj())
	return build.Pod(f.ns, "web").Claim("data").OnHost(node).Obj()
}

func TestAllIsWell(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	args := []string{
		"--scheduler-config", config, "--config", f.configFile(), "--endpoint", prebind.URL(),
		"--metrics", prebind.OpsURL(), "--service-account", account,
	}

	before := f.doctor(args...)
	before.noFault()
	before.finding("wired-in", doctor.Advice, "no scheduler has called prebind since it was started")

	// The probe of the endpoint must not have counted as the scheduler's call.
	f.doctor(args...).finding("wired-in", doctor.Advice, "no scheduler has called prebind")

	f.create(f.local())
	f.waitBound("web")
	after := f.doctor(args...)
	after.noFault()
	for _, check := range []string{"prebind-config", "scheduler-config", "cluster", "versions", "replicas", "rbac", "endpoint", "storage-classes", "pods-waiting", "wired-in"} {
		after.status(check, doctor.OK)
	}
	if !strings.Contains(after.text, "the last bind call came ") {
		t.Errorf("the call of the scheduler was not seen:\n%s", after.text)
	}
}

func TestRightIsMissing(t *testing.T) {
	f := newFixture(t)
	role, err := f.client.RbacV1().ClusterRoles().Get(f.ctx, "prebind", metav1.GetOptions{})
	if err != nil { // this test is the first
		f.prebind(controlplane.PrebindOptions{})
		role, err = f.client.RbacV1().ClusterRoles().Get(f.ctx, "prebind", metav1.GetOptions{})
		f.must(err)
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		switch rule.Resources[0] {
		case "persistentvolumes":
			rule.Verbs = []string{"get", "list", "watch"}
		case "csidrivers": // with csistoragecapacities
			rule.Verbs = []string{"get", "list"}
		}
		rules = append(rules, rule)
	}
	meta := metav1.ObjectMeta{Name: f.ns}
	f.create(
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "weak"}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: f.ns},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.ns, Name: "weak"}},
		})

	got := f.doctor("--service-account", f.ns+"/weak")
	got.onlyFaults("rbac")
	finding := got.finding("rbac", doctor.Fault, "may not patch persistentvolumes")
	got.finding("rbac", doctor.Fault, "may not watch csidrivers.storage.k8s.io")
	got.finding("rbac", doctor.Fault, "may not watch csistoragecapacities.storage.k8s.io")
	if got.Faults != 3 {
		t.Errorf("%d faults, want 3:\n%s", got.Faults, got.text)
	}
	// What it says must be what kubectl says.
	_, question, _ := strings.Cut(finding.Mend, "\nkubectl ")
	_, answer, why := f.run(programs.Kubectl, append([]string{"--kubeconfig", shared.cp.Kubeconfig()}, strings.Fields(question)...)...)
	if answer != "no\n" {
		t.Errorf("kubectl %s: %q %q, want no", question, answer, why)
	}

	// Its own token tells the same, without impersonation.
	own, err := shared.cp.WriteKubeconfigForServiceAccount(f.ctx, f.ns, "weak")
	f.must(err)
	f.doctor("--kubeconfig", own).finding("rbac", doctor.Fault, "system:serviceaccount:"+f.ns+":weak may not patch persistentvolumes")

	f.doctor("--service-account", f.ns+"/nobody").finding("rbac", doctor.Fault, "there is no such ServiceAccount")
}

func TestProfileDisablesPreBindOnly(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	half := f.edited("half.yaml", config, "    reserve:\n      disabled:\n      - name: VolumeBinding\n", "")
	got := f.doctor("--scheduler-config", half, "--config", f.configFile(), "--endpoint", prebind.URL(), "--service-account", account)
	got.onlyFaults("scheduler-config")
	got.finding("scheduler-config", doctor.Fault, "profiles[0].plugins.reserve", "reserve")
}

func TestFilesDoNotAgree(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	port := prebind.URL()[strings.LastIndex(prebind.URL(), ":")+1:]

	other := f.doctor("--scheduler-config", f.edited("other-port.yaml", config, ":"+port, ":1"), "--config", f.configFile())
	other.finding("scheduler-config", doctor.Fault, "port 1 of its own machine", "port "+port)

	short := f.doctor("--scheduler-config", f.edited("short.yaml", config, "httpTimeout: 11m", "httpTimeout: 1m"), "--config", f.configFile())
	short.finding("scheduler-config", doctor.Fault, "httpTimeout")

	bad := f.doctor("--config", f.write("bad.yaml", "apiVersion: prebind.dev/v1alpha1\nkind: PrebindConfiguration\nvolumes: {bindTimeOut: 1m}\n"))
	bad.finding("prebind-config", doctor.Fault, "bindTimeOut")
}

func TestSchedulerCallsNobody(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	meant := f.edited("meant.yaml", config, "apiVersion", "apiVersion")
	f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeNone}) // it was never restarted with the file
	node := f.ns + "-node"
	f.create(build.Node(node).Obj())
	number := 0
	f.eventually("a pod that was bound without prebind is told", func() bool {
		number++
		name := fmt.Sprintf("web-%d", number)
		f.create(build.Pod(f.ns, name).OnHost(node).Obj())
		f.waitBound(name)
		got := f.doctor("--scheduler-config", meant, "--metrics", prebind.OpsURL(), "--service-account", account)
		if got.Faults == 0 {
			return false // clocks are given five seconds
		}
		got.onlyFaults("wired-in")
		got.finding("wired-in", doctor.Fault, "pod "+f.ns+"/web-", "default-scheduler has bound it without a call to prebind", "none since prebind was started")
		return true
	})
	// Who does not know that this scheduler is meant is only advised.
	got := f.doctor("--metrics", prebind.OpsURL(), "--service-account", account)
	got.noFault()
	got.finding("wired-in", doctor.Advice, "default-scheduler has bound it without a call to prebind")
}

func TestPrebindIsDown(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	f.must(prebind.Kill())
	pod := f.local()
	f.create(pod)
	args := []string{
		"--scheduler-config", config, "--config", f.configFile(), "--endpoint", prebind.URL(),
		"--metrics", prebind.OpsURL(), "--service-account", account,
	}
	f.callFails(pod.Name)
	got := f.doctor(args...)
	got.onlyFaults("replicas", "endpoint", "pods-waiting")
	got.finding("endpoint", doctor.Fault, "refuses the connection")
	got.finding("replicas", doctor.Fault, prebind.OpsURL(), "metrics cannot be read")
	got.finding("pods-waiting", doctor.Fault, f.ns+"/web", "/v1/bind", "connection refused")

	f.must(prebind.Start(f.ctx))
	f.waitBound("web")
	f.doctor(args...).noFault()
}

// callFails waits until the scheduler has told that its call for a pod failed.
func (f *fixture) callFails(pod string) {
	f.t.Helper()
	f.eventually("the scheduler has told of its failed call", func() bool {
		now, err := f.client.CoreV1().Pods(f.ns).Get(f.ctx, pod, metav1.GetOptions{})
		f.must(err)
		return strings.Contains(fmt.Sprint(now.Status.Conditions), "/v1/bind")
	})
}

func TestBeforeUninstall(t *testing.T) {
	f := newFixture(t)
	prebind := f.prebind(controlplane.PrebindOptions{})
	config := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	node := f.ns + "-node"
	f.create(build.Node(node).Obj(),
		build.Class(f.ns).Provisioner("nobody.example/none").Obj(),
		build.Claim(f.ns, "data").Class(f.ns).Obj(),
		build.Pod(f.ns, "web").Claim("data").OnHost(node).Obj())
	f.eventually("prebind waits for the provisioner", func() bool {
		claim, err := f.client.CoreV1().PersistentVolumeClaims(f.ns).Get(f.ctx, "data", metav1.GetOptions{})
		f.must(err)
		return claim.Annotations[volume.AnnSelectedNode] == node
	})
	t.Cleanup(func() { // or later tests would be advised
		if err := f.client.StorageV1().StorageClasses().Delete(context.Background(), f.ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	uninstall := []string{"--before-uninstall", "--service-account", account}
	metrics := slices.Concat(uninstall, []string{"--metrics", prebind.OpsURL()})

	waits := f.doctor(append(metrics, "--scheduler-config", config)...)
	waits.onlyFaults("before-uninstall")
	waits.finding("before-uninstall", doctor.Fault, "1 bind call is in prebind", f.ns+"/web")
	finding := waits.finding("before-uninstall", doctor.Fault, "still needs prebind (mode bind)")
	if !strings.Contains(finding.Mend, "1. ") || strings.Index(finding.Mend, "disabled lists") > strings.Index(finding.Mend, "uninstall prebind") {
		t.Errorf("the order is not told: %s", finding.Mend)
	}
	waits.finding("storage-classes", doctor.Advice, "no CSIDriver named nobody.example/none", "1 claim is of the class without a volume")

	blind := f.doctor(uninstall...)
	blind.onlyFaults("before-uninstall")
	blind.finding("before-uninstall", doctor.Fault, "cannot be known")

	// In the right order: profile and entry first, then the pod that hangs.
	restored := f.scheduler(controlplane.SchedulerOptions{Mode: controlplane.ModeNone})
	f.must(f.client.CoreV1().Pods(f.ns).Delete(f.ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.eventually("no bind call is left", func() bool {
		return f.doctorFaults(append(metrics, "--scheduler-config", restored)...) == 0
	})
	good := f.doctor(append(metrics, "--scheduler-config", restored)...)
	good.noFault()
	good.status("before-uninstall", doctor.OK)

	// The file as it is may not be what runs.
	f.doctor(metrics...).finding("before-uninstall", doctor.Fault, "a scheduler still calls prebind")
}

// doctorFaults runs doctor for its exit code alone.
func (f *fixture) doctorFaults(args ...string) int {
	f.t.Helper()
	code, _, _ := f.run(programs.Prebind, append([]string{"doctor", "--kubeconfig", shared.cp.Kubeconfig()}, args...)...)
	return code
}
