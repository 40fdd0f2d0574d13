package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of prebind's pods.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
)

// defaultOpsPort is that of config's default server.opsAddress.
const defaultOpsPort = 8889

// replica is one prebind, and what its metrics say if they could be read.
type replica struct {
	name    string // pod NAMESPACE/NAME, or a URL
	ready   bool
	account types.NamespacedName // whose token the pod has; zero for a URL
	readings
	err error // why there are no readings
}

// checkReplicas finds the running prebinds and reads their metrics, before any
// other check calls them.
func (e *exam) checkReplicas(ctx context.Context) outcome {
	switch {
	case len(e.Metrics) > 0:
		return e.replicasByURL(ctx)
	case e.cluster == nil:
		e.noReplicas = e.noCluster + ", and no --metrics"
		return skipped("%s", e.noReplicas)
	}
	pods, err := e.cluster.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: nameLabel + "=prebind"})
	if err != nil {
		e.noReplicas = explain(err, "list", "pods") + "; give --metrics"
		return skipped("%s", e.noReplicas)
	}
	found := e.ownPods(slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !isReplica(&pod) }))
	e.replicas = make([]replica, len(found))
	ctx, cancel := context.WithTimeout(ctx, e.StepTimeout/2)
	defer cancel()
	var reading sync.WaitGroup // all at once: one that does not answer takes long
	for i := range found {
		reading.Go(func() { e.replicas[i] = e.readPod(ctx, &found[i]) })
	}
	reading.Wait()
	if len(e.replicas) == 0 {
		where := ""
		if e.ServiceAccount.Namespace != "" {
			where = " in namespace " + e.ServiceAccount.Namespace
		}
		e.noReplicas = fmt.Sprintf("no pod%s has the label %s=prebind; give --metrics", where, nameLabel)
		return skipped("%s", e.noReplicas)
	}
	return e.judgeReplicas()
}

func (e *exam) replicasByURL(ctx context.Context) outcome {
	out := outcome{summary: fmt.Sprintf("metrics of %s: %s", plural(len(e.Metrics), "replica"), strings.Join(e.Metrics, ", "))}
	for _, text := range e.Metrics {
		r := replica{name: text, ready: true}
		if r.readings, r.err = readURL(ctx, text); r.err != nil {
			out.findings = append(out.findings, Finding{
				Severity: Fault, Object: text, What: "its metrics cannot be read: " + r.err.Error(),
				Why:  "prebind is down, or this is not the address of its ops listener (server.opsAddress).",
				Mend: "See whether prebind runs and what its log says; the line \"serving\" names opsAddress.",
			})
		}
		e.replicas = append(e.replicas, r)
	}
	return out
}

// ownPods leaves out other installations of the cluster, if it is known which
// one is looked at: that of --service-account, or the one whose token we have.
func (e *exam) ownPods(pods []corev1.Pod) []corev1.Pod {
	namespace := e.ServiceAccount.Namespace
	for i := range pods {
		account := accountOf(&pods[i])
		if namespace == "" && serviceAccountPrefix+account.Namespace+":"+account.Name == e.cluster.user {
			namespace = account.Namespace
		}
	}
	if namespace == "" {
		return pods
	}
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Namespace != namespace })
}

func accountOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: cmp.Or(pod.Spec.ServiceAccountName, "default")}
}

// isReplica tells a prebind from its scheduler and its test pods.
func isReplica(pod *corev1.Pod) bool {
	component, labelled := pod.Labels[componentLabel]
	if labelled && component != "binder" {
		return false
	}
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// readPod reads a pod's metrics through the API server.
func (e *exam) readPod(ctx context.Context, pod *corev1.Pod) replica {
	r := replica{name: pod.Namespace + "/" + pod.Name, account: accountOf(pod)}
	for _, condition := range pod.Status.Conditions {
		r.ready = r.ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	if pod.Status.PodIP == "" {
		r.err = errors.New("it has no address yet")
		return r
	}
	body, err := e.cluster.client.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, strconv.Itoa(opsPort(pod)), "metrics", nil).DoRaw(ctx)
	if err != nil {
		r.err = errors.New(explain(err, "get", "pods/proxy"))
		return r
	}
	r.readings, r.err = parseMetrics(body)
	return r
}

func opsPort(pod *corev1.Pod) int {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "ops" {
				return int(port.ContainerPort)
			}
		}
	}
	return defaultOpsPort
}

// readURL reads the metrics of an ops listener.
func readURL(ctx context.Context, text string) (readings, error) {
	target, err := url.Parse(text)
	if err != nil {
		return readings{}, err
	}
	if strings.Trim(target.Path, "/") == "" {
		target.Path = "/metrics"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return readings{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return readings{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return readings{}, fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return readings{}, fmt.Errorf("the answer is %s", response.Status)
	}
	return parseMetrics(body)
}

// judgeReplicas says what is wrong with the pods that were found.
func (e *exam) judgeReplicas() outcome {
	ready, unread := 0, ""
	for _, r := range e.replicas {
		if r.ready {
			ready++
		}
		if r.err != nil && unread == "" {
			unread = fmt.Sprintf("; metrics of %s: %v", r.name, r.err)
		}
	}
	out := outcome{summary: fmt.Sprintf("%d of %s ready%s", ready, plural(len(e.replicas), "pod"), unread)}
	for _, r := range e.replicas {
		if r.ready {
			continue
		}
		finding := Finding{
			Severity: Advice, Object: "pod " + r.name, What: "this prebind is not ready",
			Why:  "The other replicas do its work; with one more failure nobody does.",
			Mend: fmt.Sprintf("kubectl -n %s logs %s; its /readyz?verbose names the check that fails.", r.account.Namespace, strings.TrimPrefix(r.name, r.account.Namespace+"/")),
		}
		if ready == 0 {
			finding.Severity, finding.Why = Fault, "No replica is: bind calls are refused, and no pod is bound."
		}
		out.findings = append(out.findings, finding)
	}
	return out
}

// read returns the replicas whose metrics are known, and whether those are all.
func (e *exam) read() (known []replica, all bool) {
	for _, r := range e.replicas {
		if r.err == nil {
			known = append(known, r)
		}
	}
	return known, len(known) > 0 && len(known) == len(e.replicas)
}

// sumUp puts the readings of several replicas together.
func sumUp(replicas []replica) readings {
	var all readings
	for i, r := range replicas {
		all.inFlight += r.inFlight
		all.calls += r.calls
		if r.last.After(all.last) {
			all.last = r.last
		}
		if i == 0 || r.started.After(all.started) {
			all.started = r.started // from then on nothing was forgotten
		}
	}
	return all
}

// ago prints how long before now t was.
func ago(now, t time.Time) string { return now.Sub(t).Round(time.Second).String() + " ago" }
