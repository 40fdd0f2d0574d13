package doctor

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/prebind/prebind/internal/version"
)

// oldest is the first minor version of Kubernetes that prebind is made for.
const oldest = 34

// checkVersions compares API server, scheduler and prebind.
func (e *exam) checkVersions(ctx context.Context) outcome {
	if e.cluster == nil {
		return skipped("%s", e.noCluster)
	}
	server, err := utilversion.ParseGeneric(e.cluster.version.GitVersion)
	if err != nil {
		return skipped("the API server calls its version %q: %v", e.cluster.version.GitVersion, err)
	}
	library := "unknown"
	var built *utilversion.Version
	if v, err := utilversion.ParseGeneric(version.Get().Kubernetes); err == nil {
		built = utilversion.MajorMinor(1, v.Minor()) // client-go v0.37 is Kubernetes 1.37
		library = built.String()
	}
	summary := fmt.Sprintf("API server %s, prebind is built for Kubernetes %s", e.cluster.version.GitVersion, library)
	schedulers, why := e.schedulers(ctx)
	switch {
	case why != "":
		summary += "; the scheduler's cannot be seen: " + why
	case len(schedulers) == 0:
		summary += "; no pod of a kube-scheduler was found to compare"
	}
	parts := []string{summary}
	for _, s := range schedulers {
		parts = append(parts, fmt.Sprintf("%s %s", s.pod, s.version))
	}
	return outcome{summary: strings.Join(parts, ", "), findings: judgeVersions(server, built, schedulers)}
}

// scheduler is a kube-scheduler that runs as a pod.
type scheduler struct {
	pod     string
	version *utilversion.Version
}

// schedulers looks for kube-scheduler pods: those of kubeadm and its like, and
// the second scheduler of prebind's chart.
func (e *exam) schedulers(ctx context.Context) (found []scheduler, why string) {
	for _, selector := range []string{"component=kube-scheduler", nameLabel + "=prebind," + componentLabel + "=scheduler"} {
		pods, err := e.cluster.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 20})
		if err != nil {
			return nil, explain(err, "list", "pods")
		}
		for i := range pods.Items {
			if v := imageVersion(&pods.Items[i]); v != nil {
				found = append(found, scheduler{pods.Items[i].Namespace + "/" + pods.Items[i].Name, v})
			}
		}
	}
	return found, ""
}

// imageVersion reads the version from the tag of a kube-scheduler image.
func imageVersion(pod *corev1.Pod) *utilversion.Version {
	for _, container := range pod.Spec.Containers {
		image, _, _ := strings.Cut(container.Image, "@")
		if !strings.Contains(image, "kube-scheduler") {
			continue
		}
		if v, err := utilversion.ParseGeneric(image[strings.LastIndex(image, ":")+1:]); err == nil {
			return v
		}
	}
	return nil
}

// judgeVersions finds what does not go together. built may be nil.
func judgeVersions(server, built *utilversion.Version, schedulers []scheduler) []Finding {
	var findings []Finding
	minor := int(server.Minor())
	const object = "API server"
	if minor < oldest {
		findings = append(findings, Finding{
			Severity: Fault, Object: object, What: fmt.Sprintf("version %s is older than 1.%d", server, oldest),
			Why:  "prebind and the registration that it needs are not tested there: kube-scheduler may treat its VolumeBinding plugin and its extenders in another way.",
			Mend: fmt.Sprintf("Upgrade the cluster to Kubernetes 1.%d or later before you register prebind.", oldest),
		})
	}
	if built != nil && server.Minor() > built.Minor()+1 {
		findings = append(findings, Finding{
			Severity: Advice, Object: object, What: fmt.Sprintf("version %s is more than one minor version newer than the %s that prebind is built for", server, built),
			Why:  "New fields of claims and volumes are unknown to prebind, which then decides without them.",
			Mend: "Upgrade prebind.",
		})
	}
	for _, s := range schedulers {
		switch {
		case s.version.Minor() > server.Minor():
			findings = append(findings, Finding{
				Severity: Fault, Object: "pod " + s.pod, What: fmt.Sprintf("kube-scheduler %s is newer than the API server (%s)", s.version, server),
				Why:  "It may ask for resources that the API server does not have, and then never starts to schedule.",
				Mend: "Give the scheduler the version of the API server (in prebind's chart: scheduler.image.tag).",
			})
		case s.version.Minor()+1 < server.Minor():
			findings = append(findings, Finding{
				Severity: Advice, Object: "pod " + s.pod, What: fmt.Sprintf("kube-scheduler %s is more than one minor version older than the API server (%s)", s.version, server),
				Why:  "Kubernetes supports one minor version of difference.",
				Mend: "Upgrade the scheduler (in prebind's chart: scheduler.image.tag).",
			})
		}
	}
	return findings
}
