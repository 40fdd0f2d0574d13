package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/prebind/prebind/test/programs"
)

// Who may read a namespace alone is told what else it takes.
func TestExplainWithFewRights(t *testing.T) {
	t.Parallel()
	e := newExplainer(t)
	node := e.node("a", nil)
	e.claim(newClaim("data", e.class(newLocalClass("local"))))
	pod := e.stays("data")
	e.kubeconfig = e.user("few", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims"}, Verbs: []string{"get"}}})
	code, text, errs := e.explain(e.ns+"/"+pod.Name, "--node", node)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, part := range []string{"Pending", "you may not list persistentvolumes", "you may not get nodes " + node, "you may not get storageclasses", "you may not list events"} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
	if !strings.Contains(text, "whether its claims allow node "+node+" cannot be told with your rights") {
		t.Errorf("it claims to know:\n%s", text)
	}
}

func TestExplainExitCodes(t *testing.T) {
	t.Parallel()
	e := newExplainer(t)
	pod := e.pod(newPod("web", nobody))
	tests := map[string]struct {
		args []string
		code int
		errs string
	}{
		"explained":       {[]string{pod.Name, "--namespace", e.ns}, 0, ""},
		"no such pod":     {[]string{e.ns + "/nobody"}, 1, "pod " + e.ns + "/nobody does not exist"},
		"no such node":    {[]string{e.ns + "/web", "--node", "nowhere"}, 1, "node nowhere does not exist"},
		"bad use":         {[]string{"a/b/c"}, 2, "must be NAMESPACE/NAME"},
		"no API server":   {[]string{e.ns + "/web", "--kubeconfig", e.elsewhere()}, 1, "127.0.0.1:1"},
		"no such context": {[]string{e.ns + "/web", "--context", "moon"}, 2, "moon"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, errs := e.explain(tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.errs) {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, errs)
			}
		})
	}
}

// elsewhere copies the kubeconfig with a server that is not there.
func (e *explainer) elsewhere() string {
	e.t.Helper()
	text, err := os.ReadFile(e.kubeconfig)
	e.must(err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if before, _, found := strings.Cut(line, "server: "); found {
			lines[i] = before + "server: https://127.0.0.1:1"
		}
	}
	path := filepath.Join(e.t.TempDir(), "kubeconfig")
	e.must(os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// kubectl runs a file called kubectl-prebind, wherever in PATH it is.
func TestExplainAsKubectlPlugin(t *testing.T) {
	t.Parallel()
	e := newExplainer(t)
	pod := e.pod(newPod("web", nobody, "data"))
	dir := t.TempDir()
	e.must(os.Symlink(e.programs.Path(programs.Prebind), filepath.Join(dir, "kubectl-prebind")))
	env := append(os.Environ(), "PATH="+dir, "KUBECONFIG="+e.kubeconfig)
	kubectl := e.programs.Path(programs.Kubectl)
	code, text, errs := e.run(env, kubectl, "prebind", "explain", "pod", pod.Name, "-n", e.ns)
	if code != 0 || !strings.Contains(text, "claim data does not exist") {
		t.Errorf("exit code %d: %s%s", code, text, errs)
	}
	_, text, _ = e.run(env, kubectl, "prebind", "explain", "pod", "--help")
	if !strings.Contains(text, "kubectl prebind explain pod NAMESPACE/NAME") {
		t.Errorf("help:\n%s", text)
	}
}
