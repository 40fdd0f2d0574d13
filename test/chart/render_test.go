package chart_test

import (
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rendered returns what Helm 3 makes of a combination in kube-system, each
// rendered once for all tests. The objects are not to be changed.
func rendered(t *testing.T, c combination) objects {
	t.Helper()
	cached, _ := renders.LoadOrStore(c, &render{})
	r := cached.(*render)
	r.once.Do(func() { r.manifest, r.err = helms()[0].template(t.Context(), c.values(t)) })
	must(t, r.err)
	return parse(t, r.manifest)
}

// renders are kept by combination.
var renders sync.Map

type render struct {
	once     sync.Once
	manifest string
	err      error
}

// eachCombination runs a test for every combination of the matrix.
func eachCombination(t *testing.T, test func(*testing.T, combination)) {
	for _, c := range matrix() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func TestRenderedTheSameByBothVersions(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		manifest, err := helms()[1].template(t.Context(), c.values(t))
		must(t, err)
		three, four := rendered(t, c), parse(t, manifest)
		hideSecrets(three)
		hideSecrets(four)
		if diff := cmp.Diff(three, four); diff != "" {
			t.Errorf("rendered by Helm 3 (-) and Helm 4 (+):\n%s", diff)
		}
		if len(three) == 0 {
			t.Error("nothing was rendered")
		}
	})
}

// hideSecrets replaces the values of Secrets, which are random.
func hideSecrets(all objects) {
	for _, o := range all {
		data, found, _ := unstructured.NestedMap(o.Object, "data")
		if o.GetKind() != "Secret" || !found {
			continue
		}
		for key := range data {
			data[key] = "hidden"
		}
		o.Object["data"] = data
	}
}

func TestRenderedPassesLint(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		file, err := valuesFile(c.values(t))
		must(t, err)
		for _, h := range helms() {
			out, err := h.run(t.Context(), "lint", "--strict", "--kube-version", kubeVersion, "--values", file, shared.chart)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
}

// Names, namespaces and labels, as contracts with other tools.
func TestRenderedNames(t *testing.T) {
	eachCombination(t, func(t *testing.T, c combination) {
		seen := map[string]bool{}
		for _, o := range rendered(t, c) {
			if seen[id(o)] {
				t.Errorf("%s is there twice", id(o))
			}
			seen[id(o)] = true
			if wide := clusterWide(o.GetKind()); wide != (o.GetNamespace() == "") {
				t.Errorf("%s: a namespace is given: %t", id(o), wide)
			}
			checkLabels(t, o, c)
		}
	})
}

func checkLabels(t *testing.T, o *unstructured.Unstructured, c combination) {
	t.Helper()
	want := map[string]string{
		"app.kubernetes.io/name":       "prebind",
		"app.kubernetes.io/instance":   "prebind",
		"app.kubernetes.io/component":  "^(binder|scheduler|test)$",
		"app.kubernetes.io/version":    "^[0-9]+\\.[0-9]+\\.[0-9]+$",
		"app.kubernetes.io/managed-by": "Helm",
		"app.kubernetes.io/part-of":    "prebind",
		"helm.sh/chart":                "^prebind-[0-9]",
	}
	if c.maximal {
		want["team"] = "storage"
	}
	for key, pattern := range want {
		if value, found := o.GetLabels()[key]; !found || !regexp.MustCompile(pattern).MatchString(value) {
			t.Errorf("%s: label %s is %q, want %s", id(o), key, value, pattern)
		}
	}
}

// Two releases share nothing: neither in one namespace, nor with one name in
// two namespaces.
func TestRenderedReleasesDoNotClash(t *testing.T) {
	releases := []struct{ name, namespace string }{
		{"prebind", "kube-system"}, {"prebind", "other"}, {"blue", "other"}, {"my-prebind", "other"},
	}
	owner := map[string]string{}
	for _, r := range releases {
		manifest, err := helms()[0].templateAs(t.Context(), r.name, r.namespace, "scheduler: {enabled: true}")
		must(t, err)
		for _, o := range parse(t, manifest) {
			release := r.namespace + "/" + r.name
			if other, found := owner[id(o)]; found {
				t.Errorf("%s belongs to the releases %s and %s", id(o), other, release)
			}
			owner[id(o)] = release
		}
	}
}

func TestRenderedNamesStayShort(t *testing.T) {
	const long = "a-release-with-a-name-as-long-as-helm-lets-it-be-x-xx" // 53
	for _, values := range []string{"scheduler: {enabled: true}", "serviceMonitor: {enabled: true}", "tls: {type: cert-manager}"} {
		manifest, err := helms()[0].templateAs(t.Context(), long, "other", values)
		must(t, err)
		for _, o := range parse(t, manifest) {
			if limit := 63; len(o.GetName()) > limit && !clusterWide(o.GetKind()) && o.GetNamespace() != "kube-system" {
				t.Errorf("%s: a name of %d characters, more than %d", id(o), len(o.GetName()), limit)
			}
		}
	}
	if len(long) != 53 {
		t.Fatal(fmt.Sprint("the longest release name has 53 characters, this one ", len(long)))
	}
}
