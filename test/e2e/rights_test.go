package e2e_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/controlplane"
)

// without starts a prebind whose ServiceAccount has the rights of the manifest
// but for the verbs on the resource.
func (f *fixture) without(verbs []string, resource string, opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	return f.lacking(map[string][]string{resource: verbs}, opts)
}

// lacking does so for several resources: removed has the verbs by resource.
func (f *fixture) lacking(removed map[string][]string, opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	role, err := f.client.RbacV1().ClusterRoles().Get(f.ctx, "prebind", metav1.GetOptions{})
	f.must(err)
	var rules []rbacv1.PolicyRule
	lost := 0
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources { // one rule each
			one := rule.DeepCopy()
			one.Resources = []string{resource}
			one.Verbs = slices.DeleteFunc(one.Verbs, func(have string) bool { return slices.Contains(removed[resource], have) })
			lost += len(rule.Verbs) - len(one.Verbs)
			if len(one.Verbs) > 0 {
				rules = append(rules, *one)
			}
		}
	}
	if want := len(slices.Concat(slices.Collect(maps.Values(removed))...)); lost != want {
		f.t.Fatalf("%d of the rights %v were in the manifest, want all %d", lost, removed, want)
	}
	return f.withRules(rules, opts)
}

// withRules starts a prebind whose ServiceAccount has these rights.
func (f *fixture) withRules(rules []rbacv1.PolicyRule, opts controlplane.PrebindOptions) *controlplane.Prebind {
	f.t.Helper()
	name := f.name("prebind")
	_, err := f.client.RbacV1().ClusterRoles().Create(f.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.client.CoreV1().ServiceAccounts(f.ns).Create(f.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prebind"}}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.client.RbacV1().ClusterRoleBindings().Create(f.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.ns, Name: "prebind"}},
	}, metav1.CreateOptions{})
	f.must(err)
	config, err := shared.cp.ServiceAccountConfig(f.ctx, f.ns, "prebind")
	f.must(err)
	opts.Name, opts.ClientConfig = name, config
	return shared.startPrebind(f.t, opts)
}

func TestS40_RightsAreMissing(t *testing.T) {
	tests := map[string]struct {
		verb, resource string
		dynamic        bool
		plainBinds     bool
		words          []string
	}{
		"patch on claims":   {"patch", "persistentvolumeclaims", true, true, []string{"patch persistentvolumeclaims", "/data"}},
		"patch on volumes":  {"patch", "persistentvolumes", false, true, []string{"patch persistentvolumes", "-a"}},
		"create on binding": {"create", "pods/binding", false, false, []string{"create pods/binding", "/web"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			node := f.node("a", nil)
			class := f.class(newLocalClass("local"))
			if tc.dynamic {
				class = f.class(newClass("dynamic", shared.disks.Name(), storagev1.VolumeBindingWaitForFirstConsumer))
			} else {
				f.volume(newVolume("a", class, node))
			}
			f.claim(newClaim("data", class))
			pod, plain := f.pod(newPod("web", nobody, "data")), f.pod(newPod("plain", nobody))
			weak := f.without([]string{tc.verb}, tc.resource, controlplane.PrebindOptions{})

			text, err := postBind(f.ctx, weak.URL(), bindArgs(pod, node))
			f.must(err)
			f.checkRefused(text, "Forbidden", append(tc.words, "RBAC")...)
			if got := f.getPod("web").Spec.NodeName; got != "" {
				t.Errorf("the pod is on node %s", got)
			}
			f.refusedOnce()

			text, err = postBind(f.ctx, weak.URL(), bindArgs(plain, node))
			f.must(err)
			if tc.plainBinds {
				if text != "" {
					t.Errorf("a pod without claims: %s", text)
				}
			} else {
				f.checkRefused(text, "Forbidden", "pods/binding")
			}
		})
	}
}

// refusedOnce checks that a refused write was sent once and not again.
func (f *fixture) refusedOnce() {
	f.t.Helper()
	events, err := shared.cp.Audit(f.ctx, controlplane.AuditFilter{
		User: "system:serviceaccount:" + f.ns + ":prebind", Verbs: controlplane.Writes(), Code: http.StatusForbidden,
	})
	if err != nil {
		return // an existing cluster has no audit log to read
	}
	if len(events) != 1 {
		f.t.Errorf("%d refused writes, want one:\n%s", len(events), controlplane.DescribeAudit(events))
	}
}

func TestS40_ListIsForbidden(t *testing.T) {
	f := newFixture(t)
	node := f.node("a", nil)
	pod := f.pod(newPod("web", nobody))
	// Either alone fills a cache: a watch can stream the list.
	blind := f.without([]string{"list", "watch"}, "persistentvolumes", controlplane.PrebindOptions{Unready: true})
	f.eventually("all but the cache of volumes is ready", func() bool {
		code, text := f.get(blind.OpsURL() + "/readyz?verbose")
		return code == http.StatusServiceUnavailable && strings.Count(text, "[-]") == 1 &&
			strings.Contains(text, "[-]cache-persistentvolumes failed")
	})
	if code, text := f.get(blind.OpsURL() + "/livez"); code != http.StatusOK {
		t.Errorf("livez is %d: %s", code, text)
	}
	text, err := postBind(f.ctx, blind.URL(), bindArgs(pod, node))
	f.must(err)
	f.checkRefused(text, "NotReady", "persistentvolumes")
}

// get returns status and body; a server that is not up yet has status 0.
func (f *fixture) get(url string) (int, string) {
	f.t.Helper()
	code, text, err := send(f.ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	return code, string(text)
}
