package doctor

import (
	"context"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is an API server that has answered.
type cluster struct {
	config  *rest.Config
	client  kubernetes.Interface
	user    string // as whom we are known there; empty: it did not tell
	version *version.Info
}

// checkCluster finds out whether there is a cluster to look at, and who we are
// in it.
func (e *exam) checkCluster(ctx context.Context) outcome {
	if e.Cluster == nil {
		e.noCluster = "no cluster"
		return skipped("%s", e.NoCluster)
	}
	config := rest.CopyConfig(e.Cluster)
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return e.unreachable(config.Host, err)
	}
	// Not Discovery().ServerVersion, which does not heed a context.
	text, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return e.unreachable(config.Host, err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return e.unreachable(config.Host, fmt.Errorf("decoding its version: %w", err))
	}
	e.cluster = &cluster{config: config, client: client, version: &info, user: whoAmI(ctx, client)}
	return outcome{summary: fmt.Sprintf("%s answers; you are %s there", config.Host, e.cluster.user)}
}

func (e *exam) unreachable(host string, err error) outcome {
	e.noCluster = "the API server cannot be reached"
	if !e.ClusterChosen {
		return skipped("%s does not answer, and nobody asked for it: %v", host, err)
	}
	return outcome{summary: host, findings: []Finding{{
		Severity: Fault, Object: host, What: "the API server does not answer: " + err.Error(),
		Why:  "Rights, replicas, classes and pods cannot be looked at. If prebind uses this kubeconfig, it is as blind.",
		Mend: "Check with `kubectl version` and the same kubeconfig; then run doctor again.",
	}}}
}

// whoAmI returns our user name.
func whoAmI(ctx context.Context, client kubernetes.Interface) string {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "somebody (the API server does not tell)"
	}
	return review.Status.UserInfo.Username
}

// explain says in short why a request to the API server came to nothing.
func explain(err error, verb, resource string) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("you may not %s %s", verb, resource)
	}
	return fmt.Sprintf("%s %s: %v", verb, resource, err)
}
