package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"golang.org/x/sync/errgroup"

	"github.com/prebind/prebind/config"
)

const serviceAccountPrefix = "system:serviceaccount:"

// applyRules is how rights are mended.
const applyRules = "Apply examples/rbac.yaml, or install the chart with its RBAC on; or let --service-account name the right one."

// checkRBAC asks for each right that prebind needs. It asks for the service
// account of --service-account, else that of the pods that were found, else
// whoever we are.
func (e *exam) checkRBAC(ctx context.Context) outcome {
	if e.cluster == nil {
		return skipped("%s", e.noCluster)
	}
	client, user, chosen := e.cluster.client, e.cluster.user, false
	if account := e.account(); account.Name != "" {
		user, chosen = serviceAccountPrefix+account.Namespace+":"+account.Name, true
		var err error
		if client, err = e.impersonate(user, account); err != nil {
			return skipped("acting as %s: %v", user, err)
		}
		if _, err := e.cluster.client.CoreV1().ServiceAccounts(account.Namespace).Get(ctx, account.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return outcome{summary: user, findings: []Finding{{
				Severity: Fault, Object: "serviceaccount " + account.String(), What: "there is no such ServiceAccount",
				Why:  "Pods that name it cannot be created, so prebind does not run.",
				Mend: applyRules,
			}}}
		}
	}
	missing, asked, err := askRights(ctx, client, Rights(e.features()))
	if apierrors.IsForbidden(err) && chosen && user != e.cluster.user {
		return skipped("you may not act as %s; ask somebody who may impersonate it, or run doctor with its token: %v", user, err)
	}
	if err != nil {
		return skipped("%s", explain(err, "create", "selfsubjectaccessreviews"))
	}
	own := strings.HasPrefix(user, serviceAccountPrefix)
	if !own && len(missing) > 0 {
		// A person need not have them, and prebind is hardly this person.
		return skipped("%s lacks %d of the %d rights that prebind needs; prebind's own: --service-account", user, countVerbs(missing), asked)
	}
	out := outcome{summary: fmt.Sprintf("%s has the %d rights that prebind needs", user, asked)}
	if len(missing) > 0 {
		out.summary = fmt.Sprintf("%s lacks %d of the %d rights that prebind needs", user, countVerbs(missing), asked)
	}
	if !own {
		out.summary += " (prebind's own: --service-account)"
	}
	out.findings = describeMissing(missing, user)
	if countVerbs(missing) == asked {
		out.findings = []Finding{{
			Severity: Fault, Object: "clusterrolebindings", What: user + " has none of the rights that prebind needs",
			Why:  "prebind does not become ready, and no pod is bound. As a rule no ClusterRoleBinding names this user.",
			Mend: applyRules,
		}}
	}
	return out
}

// features are those of prebind's file, or of the defaults if there is none.
func (e *exam) features() Features {
	cfg := e.prebind
	if cfg == nil {
		cfg = config.Default()
	}
	return Features{
		Direct:   cfg.Volumes.StaticCompletion == config.StaticCompletionDirect,
		Nominate: cfg.Volumes.NominateWhileWaiting,
		Events:   cfg.Events.Enabled,
	}
}

// account is whose rights are checked, zero for our own.
func (e *exam) account() types.NamespacedName {
	if e.ServiceAccount.Name != "" {
		return e.ServiceAccount
	}
	var account types.NamespacedName
	for _, r := range e.replicas {
		if serviceAccountPrefix+r.account.Namespace+":"+r.account.Name == e.cluster.user {
			return types.NamespacedName{} // we are one of them: others are another installation's
		}
		if account.Name == "" {
			account = r.account
		}
	}
	return account
}

func (e *exam) impersonate(user string, account types.NamespacedName) (kubernetes.Interface, error) {
	if user == e.cluster.user {
		return e.cluster.client, nil
	}
	as := rest.CopyConfig(e.cluster.config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: user,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	return kubernetes.NewForConfig(as)
}

// askRights asks for each verb of each right and returns the rights that lack
// some, with those verbs, and how many were asked for.
func askRights(ctx context.Context, client kubernetes.Interface, rights []Right) (missing []Right, asked int, err error) {
	denied := make([][]bool, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, right := range rights {
		denied[i] = make([]bool, len(right.Verbs))
		for j, verb := range right.Verbs {
			asked++
			group.Go(func() error {
				allowed, err := mayI(ctx, client, right, verb)
				denied[i][j] = !allowed
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, asked, err
	}
	for i, right := range rights {
		var verbs []string
		for j, verb := range right.Verbs {
			if denied[i][j] {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			right.Verbs = verbs
			missing = append(missing, right)
		}
	}
	return missing, asked, nil
}

func mayI(ctx context.Context, client kubernetes.Interface, right Right, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource,
		},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// describeMissing makes a finding of each resource on which rights are missing.
func describeMissing(missing []Right, user string) []Finding {
	var findings []Finding
	for _, right := range missing {
		severity := Fault
		if right.Resource == "events" {
			severity = Advice
		}
		findings = append(findings, Finding{
			Severity: severity, Object: right.String(),
			What: fmt.Sprintf("%s may not %s %s", user, strings.Join(right.Verbs, ", "), right),
			Why:  right.without(right.Verbs),
			Mend: applyRules + " Check with\n" + right.questions(right.Verbs, user),
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(string(b.Severity), string(a.Severity)) }) // fault before advice
	return findings
}

func countVerbs(rights []Right) int {
	n := 0
	for _, right := range rights {
		n += len(right.Verbs)
	}
	return n
}
