package doctor

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"
)

// flat prints rights one verb a line.
func flat(group, resource string, verbs []string) []string {
	var lines []string
	for _, verb := range verbs {
		lines = append(lines, strings.TrimSpace(verb+" "+resource+" "+group))
	}
	return lines
}

func allFeatures() Features { return Features{Direct: true, Nominate: true, Events: true} }

// Each feature costs one right.
func TestRightsOfFeatures(t *testing.T) {
	none := len(Rights(Features{}))
	for name, tc := range map[string]struct {
		features Features
		want     string
		verbs    []string
	}{
		"Direct":   {Features{Direct: true}, "persistentvolumes/status", []string{"patch"}},
		"Nominate": {Features{Nominate: true}, "pods/status", []string{"patch"}},
		"Events":   {Features{Events: true}, "events.events.k8s.io", []string{"create", "patch"}},
	} {
		rights := Rights(tc.features)
		if len(rights) != none+1 || rights[none].String() != tc.want || !slices.Equal(rights[none].Verbs, tc.verbs) {
			t.Errorf("%s: beside the %d rights of all there are %v, want %v on %s", name, none, rights[none:], tc.verbs, tc.want)
		}
	}
}

// TestRightsAreThoseOfTheManifest holds the list against what users apply.
func TestRightsAreThoseOfTheManifest(t *testing.T) {
	text, err := os.ReadFile("../../examples/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					want = append(want, flat(group, resource, rule.Verbs)...)
				}
			}
		}
	}
	for _, right := range Rights(allFeatures()) {
		resource := right.Resource
		if right.Subresource != "" {
			resource += "/" + right.Subresource
		}
		got = append(got, flat(right.Group, resource, right.Verbs)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Errorf("rights (-examples/rbac.yaml +Rights):\n%s", diff)
	}
}

func TestAskRights(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb != "patch" && asked.Subresource != "binding" && asked.Resource != "events"
		return true, review, nil
	})
	missing, asked, err := askRights(t.Context(), client, Rights(Features{Events: true}))
	if err != nil || asked != 30 {
		t.Fatalf("%d rights asked for, error %v", asked, err)
	}
	const user = "system:serviceaccount:kube-system:prebind"
	findings := describeMissing(missing, user)
	wantFindings(t, findings, "fault:may not patch persistentvolumeclaims", "fault:may not patch persistentvolumes", "fault:may not create pods/binding", "advice:may not list events", "advice:may not create, patch events.events.k8s.io")
	for i, question := range []string{
		"kubectl auth can-i patch persistentvolumeclaims --all-namespaces --as=" + user,
		"kubectl auth can-i patch persistentvolumes --as=" + user,
		"kubectl auth can-i create pods/binding --all-namespaces --as=" + user,
	} {
		if !strings.HasSuffix(findings[i].Mend, "\n"+question) {
			t.Errorf("finding %d: mend %q lacks %q", i, findings[i].Mend, question)
		}
	}
}

func TestWithout(t *testing.T) {
	for _, right := range Rights(allFeatures()) {
		if why := right.without(right.Verbs); strings.Contains(why, "it .") || strings.Contains(why, "and .") || strings.Contains(why, "  ") {
			t.Errorf("%s: %q", right, why)
		}
	}
	const want = "Without it prebind does not become ready, and no pod is bound; and no pod gets a volume that exists already: bind calls end with Forbidden."
	if got := Rights(Features{})[3].without([]string{"list", "watch", "patch"}); got != want {
		t.Errorf("without list, watch, patch: %q, want %q", got, want)
	}
}

func TestAskRightsFails(t *testing.T) {
	client := fake.NewClientset()
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectaccessreviews"}, "", errors.New("no"))
	client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refusal
	})
	if missing, _, err := askRights(context.Background(), client, Rights(allFeatures())); !apierrors.IsForbidden(err) || missing != nil {
		t.Errorf("missing %v, error %v", missing, err)
	}
}
