package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExplainUsage(t *testing.T) {
	noCluster(t)
	missing := filepath.Join(t.TempDir(), "missing")
	kubeconfig := kubeconfigFor(t, "http://127.0.0.1:1")
	tests := map[string]struct {
		args   []string
		stderr []string
	}{
		"nothing":                {nil, []string{"nothing to explain: give pod NAMESPACE/NAME, as in `prebind explain pod shop/db-0`", "See 'prebind explain --help'."}},
		"something else":         {[]string{"deployment", "shop/web"}, []string{`"deployment" cannot be explained, only a pod can`}},
		"no pod":                 {[]string{"pod"}, []string{"which pod? Give NAMESPACE/NAME, or NAME with --namespace", "See 'prebind explain pod --help'."}},
		"two pods":               {[]string{"pod", "shop/a", "shop/b"}, []string{"one pod at a time, not 2: shop/a shop/b"}},
		"three parts":            {[]string{"pod", "a/b/c"}, []string{`pod "a/b/c": must be NAMESPACE/NAME`}},
		"half a name":            {[]string{"pod", "shop/"}, []string{`pod "shop/": must be NAMESPACE/NAME`}},
		"no name can be so":      {[]string{"pod", "shop/Db_0"}, []string{`pod "Db_0": a lowercase RFC 1123 subdomain`}},
		"no namespace can be so": {[]string{"pod", "Shop/db-0"}, []string{`namespace "Shop": a lowercase RFC 1123 label`}},
		"two namespaces":         {[]string{"pod", "shop/db-0", "-n", "bar"}, []string{"pod shop/db-0 and --namespace bar name two namespaces"}},
		"a node and all":         {[]string{"pod", "shop/db-0", "--node", "n1", "--all-nodes"}, []string{"--node n1 and --all-nodes do not go together"}},
		"no node can be so":      {[]string{"pod", "shop/db-0", "--node", "a/b"}, []string{`--node "a/b": `}},
		"an unknown format":      {[]string{"pod", "shop/db-0", "-o", "wide"}, []string{`unknown --output "wide", known ones: table, json, yaml`}},
		"no time":                {[]string{"pod", "shop/db-0", "--timeout", "0s"}, []string{"--timeout 0s: must be more than 0"}},
		"no cluster":             {[]string{"pod", "shop/db-0"}, []string{"no cluster: no kubeconfig was found", "give --kubeconfig"}},
		"no such kubeconfig":     {[]string{"pod", "shop/db-0", "--kubeconfig", missing}, []string{"loading the kubeconfig", missing}},
		"no kubeconfig at all":   {[]string{"pod", "shop/db-0", "--kubeconfig", write(t, "broken", "{{")}, []string{"loading the kubeconfig", "broken", "kubectl config view"}},
		"an unknown flag":        {[]string{"pod", "shop/db-0", "--nodes", "n1"}, []string{"unknown flag: --nodes", "See 'prebind explain pod --help'."}},
		"no such context":        {[]string{"pod", "shop/db-0", "--kubeconfig", kubeconfig, "--context", "moon"}, []string{"loading the kubeconfig", "moon"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"explain"}, tc.args...), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d, want 2", code)
			}
			wantParts(t, "stderr", stderr.String(), tc.stderr)
			wantParts(t, "stdout", stdout.String(), nil)
		})
	}
}

// kubeconfigFor writes a kubeconfig whose context has the namespace shop.
func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	return write(t, "kubeconfig", `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]
clusters: [{name: c, cluster: {server: "`+url+`"}}]
users: [{name: u, user: {}}]
`)
}

func TestExplainWithoutAPIServer(t *testing.T) {
	noCluster(t)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"explain", "pod", "db-0", "--kubeconfig", kubeconfigFor(t, "http://127.0.0.1:1")}, &stdout, &stderr)
	if code != exitFailure {
		t.Errorf("exit code %d, want 1", code)
	}
	wantParts(t, "stderr", stderr.String(), []string{"prebind: reading pod shop/db-0: see whether `kubectl cluster-info` reaches the cluster: ", "127.0.0.1:1"})
	wantParts(t, "stdout", stdout.String(), nil)
}

// A server of one pod that uses no claims shows that every way to name it works.
func TestExplainPod(t *testing.T) {
	noCluster(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/api/v1/namespaces/shop/pods/db-0":
			answer = &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}
		case "/api/v1/namespaces/shop/events":
			answer = &v1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}}
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = &metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: r.URL.Path,
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := kubeconfigFor(t, server.URL)
	tests := map[string]struct {
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		"namespace and name":       {[]string{"pod", "shop/db-0"}, exitOK, []string{"Pod shop/db-0: ", "it uses no claims"}, nil},
		"a flag for the namespace": {[]string{"pod", "db-0", "-n", "shop"}, exitOK, []string{"Pod shop/db-0: "}, nil},
		"the context's namespace":  {[]string{"pods", "db-0", "--context", "c"}, exitOK, []string{"Pod shop/db-0: "}, nil},
		"as JSON":                  {[]string{"pod", "db-0", "-o", "json"}, exitOK, []string{`"pod": "shop/db-0"`, `"claims": []`}, nil},
		"as YAML":                  {[]string{"pod", "db-0", "-o", "yaml"}, exitOK, []string{"pod: shop/db-0\n", "claims: []\n"}, nil},
		"no such pod":              {[]string{"pod", "web"}, exitFailure, nil, []string{"prebind: pod shop/web does not exist"}},
		"no such node":             {[]string{"pod", "db-0", "--node", "n9"}, exitFailure, nil, []string{"prebind: node n9 does not exist"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"explain", "--kubeconfig", kubeconfig}, tc.args...), &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			wantParts(t, "stdout", stdout.String(), tc.stdout)
			wantParts(t, "stderr", stderr.String(), tc.stderr)
		})
	}
}

func TestKubectlPlugin(t *testing.T) {
	for file, want := range map[string]string{
		"/usr/local/bin/kubectl-prebind": "kubectl prebind", "kubectl-prebind.exe": "kubectl prebind",
		"./prebind": "prebind", "/tmp/kubectl-prebind-old": "prebind", "prebind.test": "prebind",
	} {
		if got := programName(file); got != want {
			t.Errorf("program %s is called %q, want %q", file, got, want)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := runAs(t.Context(), pluginName, []string{"explain", "pod", "--help"}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	wantParts(t, "help", stdout.String(), []string{
		"Usage:\n  kubectl prebind explain pod NAMESPACE/NAME [--node NODE | --all-nodes] [flags]\n",
		"  kubectl prebind explain pod shop/db-0 --node node-7\n", "--all-nodes ",
	})
	if strings.Contains(strings.ReplaceAll(stdout.String(), "kubectl prebind", ""), "prebind explain") {
		t.Errorf("the help names another program:\n%s", stdout.String())
	}
	if code := runAs(t.Context(), pluginName, []string{"explain"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("exit code %d, want 2", code)
	}
	wantParts(t, "stderr", stderr.String(), []string{"`kubectl prebind explain pod shop/db-0`", "See 'kubectl prebind explain --help'."})
}
