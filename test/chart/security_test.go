package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Every pod passes the strictest level of pod security admission; in mode
// daemonset all but what the host network means.
func TestRestrictedPods(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	eachCombination(t, func(t *testing.T, c combination) {
		pods := rendered(t, c).pods(t)
		if want := 2; len(pods) < want { // prebind and the test
			t.Fatalf("%d pods, want %d or more", len(pods), want)
		}
		for _, p := range pods {
			for _, result := range evaluator.EvaluatePod(restricted, &p.ObjectMeta, &p.Spec) {
				if result.Allowed || c.mode == "daemonset" && slices.Contains(hostReasons(), result.ForbiddenReason) {
					continue
				}
				t.Errorf("%s: %s: %s", id(p.owner), result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	})
}

// hostReasons are what pod security says of a pod on the host network.
func hostReasons() []string {
	return []string{"host namespaces", "hostPort", "probe or lifecycle host"}
}

// What pod security does not ask for.
func TestRestrictedContainers(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		for _, p := range rendered(t, c).pods(t) {
			for _, container := range p.Spec.Containers {
				security := container.SecurityContext
				if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
					t.Errorf("%s: container %s may write its root file system", id(p.owner), container.Name)
				}
				if !container.Resources.Requests.Cpu().IsZero() && !container.Resources.Requests.Memory().IsZero() {
					continue
				}
				t.Errorf("%s: container %s requests no CPU or no memory: %v", id(p.owner), container.Name, container.Resources.Requests)
			}
			if p.Spec.ServiceAccountName == "" || p.Spec.ServiceAccountName == "default" {
				t.Errorf("%s runs under the account %q", id(p.owner), p.Spec.ServiceAccountName)
			}
			checkSecretVolumes(t, p)
		}
	})
}

// checkSecretVolumes checks that the CA's key is mounted nowhere, and that
// other users of the machine cannot read keys.
func checkSecretVolumes(t *testing.T, p podTemplate) {
	t.Helper()
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil || v.Name == "extra" {
			continue
		}
		if strings.HasSuffix(v.Secret.SecretName, "-ca") {
			t.Errorf("%s mounts the Secret %s, which has the CA's key", id(p.owner), v.Secret.SecretName)
		}
		if mode := v.Secret.DefaultMode; mode == nil || *mode&0o007 != 0 {
			t.Errorf("%s: volume %s may be read by everyone", id(p.owner), v.Name)
		}
	}
}

// The rights are those of examples/rbac.yaml, under which all end-to-end tests
// run; those that only staticCompletion Direct and nominateWhileWaiting need are
// there only with them.
func TestRestrictedRights(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(shared.root, "examples", "rbac.yaml"))
	must(t, err)
	every := get[rbacv1.ClusterRole](t, parse(t, string(text)), "ClusterRole", "prebind").Rules
	byDefault := slices.DeleteFunc(slices.Clone(every), func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "persistentvolumes/status") || slices.Contains(rule.Resources, "pods/status")
	})
	if len(byDefault) != len(every)-2 {
		t.Fatalf("examples/rbac.yaml has %d rules, %d of them for features that are off by default, want 2", len(every), len(every)-len(byDefault))
	}
	eachCombination(t, func(t *testing.T, c combination) {
		all := rendered(t, c)
		name, account, want := "kube-system:prebind", "prebind", byDefault
		if c.maximal { // with both features
			name, account, want = "kube-system:volume-binder", "binder-account", every
		}
		if diff := cmp.Diff(want, get[rbacv1.ClusterRole](t, all, "ClusterRole", name).Rules); diff != "" {
			t.Errorf("rules of examples/rbac.yaml (-) and of the chart (+):\n%s", diff)
		}
		binding := get[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding", name)
		subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: "kube-system"}}
		if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != name {
			t.Errorf("%s gives role %s to (-want +got):\n%s", binding.Name, binding.RoleRef.Name, diff)
		}
		for _, o := range all { // nothing else gives prebind more
			if strings.HasSuffix(o.GetKind(), "Binding") && o.GetName() != name && grants(decode[rbacv1.RoleBinding](t, o), account) {
				t.Errorf("%s gives rights to prebind too", id(o))
			}
		}
	})
}

// The right to write events goes with the events.
func TestRestrictedRightsWithoutEvents(t *testing.T) {
	manifest, err := helms()[0].template(t.Context(), "config: {events: {enabled: false}}")
	must(t, err)
	for _, rule := range get[rbacv1.ClusterRole](t, parse(t, manifest), "ClusterRole", "kube-system:prebind").Rules {
		if slices.Contains(rule.APIGroups, "events.k8s.io") {
			t.Errorf("events are off, and prebind may %v %v of %v", rule.Verbs, rule.Resources, rule.APIGroups)
		}
	}
}

func grants(binding *rbacv1.RoleBinding, account string) bool {
	return slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account })
}

// The second scheduler has the built-in roles of a scheduler, and its own Lease.
func TestRestrictedRightsOfTheSecondScheduler(t *testing.T) {
	all := rendered(t, combination{tls: "helm", mode: "deployment", scheduler: true})
	got := map[string]string{}
	for _, o := range all {
		if strings.HasSuffix(o.GetKind(), "Binding") && grants(decode[rbacv1.RoleBinding](t, o), "prebind-scheduler") {
			got[o.GetNamespace()+"/"+decode[rbacv1.RoleBinding](t, o).RoleRef.Name] = o.GetKind()
		}
	}
	want := map[string]string{
		"/system:kube-scheduler":                                "ClusterRoleBinding",
		"/system:volume-scheduler":                              "ClusterRoleBinding",
		"kube-system/extension-apiserver-authentication-reader": "RoleBinding",
		"kube-system/prebind-scheduler":                         "RoleBinding",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles of the second scheduler (-want +got):\n%s", diff)
	}
	for _, rule := range get[rbacv1.Role](t, all, "Role", "prebind-scheduler").Rules {
		if !slices.Equal(rule.Resources, []string{"leases"}) {
			t.Errorf("its own role allows %v of %v", rule.Verbs, rule.Resources)
		}
		if len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("its own role allows %v of every Lease", rule.Verbs)
		}
	}
}

// containerOf returns the container of a pod, nil when there is none.
func containerOf(spec *corev1.PodSpec, name string) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i]
		}
	}
	return nil
}
