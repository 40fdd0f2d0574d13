package explain

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/volumes"
)

// compose makes the report of what was read.
func (f *findings) compose() *Report {
	r := &Report{
		Time: f.now.UTC(),
		Pod:  f.pod.Namespace + "/" + f.pod.Name, UID: string(f.pod.UID), Phase: string(f.pod.Status.Phase), Created: f.pod.CreationTimestamp.UTC(),
		Node: f.pod.Spec.NodeName, Scheduled: scheduled(f.pod), Target: f.target,
		Claims: []Claim{}, Events: f.podEvents, Missing: f.lacks.texts(),
	}
	if r.Events == nil {
		r.Events = []Event{}
	}
	for i := range f.explanation.Claims {
		r.Claims = append(r.Claims, f.claim(i))
	}
	r.Nodes = f.nodes()
	troubles := make([]trouble, len(r.Claims))
	for i := range r.Claims {
		c := &r.Claims[i]
		f.giveReasons(i, c, &r.Nodes)
		troubles[i] = f.trouble(i, c, &r.Nodes)
		c.Next = troubles[i].next
	}
	r.Verdict, r.Next = f.verdict(r, troubles)
	return r
}

// scheduled returns what the scheduler says against the pod, or nil.
func scheduled(pod *v1.Pod) *Scheduled {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
			return &Scheduled{condition.Reason, condition.Message, condition.LastTransitionTime.UTC()}
		}
	}
	return nil
}

// texts say which right is missing, and what it costs.
func (l lacks) texts() []string {
	texts := []string{}
	for _, lack := range l {
		text := "you may not " + lack.String() + ": " + costs(lack)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

func costs(lack volumes.Lack) string {
	switch lack.Resource {
	case "persistentvolumeclaims":
		return "nothing is known of this claim"
	case "persistentvolumes":
		if lack.Name != "" {
			return "which nodes reach the volume is not known"
		}
		return "which volumes a claim could take is not known"
	case "storageclasses":
		return "who is to bind the claims of the class, and when, is not known"
	case "nodes":
		return "what happens on nodes is not known"
	case "csinodes":
		return "volumes of in-tree plugins are judged as if no node had migrated them to CSI"
	case "csidrivers", "csistoragecapacities":
		return "whether there is room for a new volume is not known"
	case "events":
		return "what was said of the pod and its claims is not known"
	}
	return "something is not known"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
