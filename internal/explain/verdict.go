package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/internal/events"
	"github.com/prebind/prebind/volumes"
)

// maxTroubles is how many claims the verdict is about.
const maxTroubles = 3

// verdict says how the pod stands, in a clause that goes on "pod shop/db-0: ", and
// what to do next.
func (f *findings) verdict(r *Report, troubles []trouble) (verdict, next string) {
	switch {
	case f.pod.DeletionTimestamp != nil:
		return "it is being deleted, and nothing is bound for it any more", "Wait until it is gone."
	case f.pod.Status.Phase == v1.PodSucceeded || f.pod.Status.Phase == v1.PodFailed:
		return "it has ended: " + string(f.pod.Status.Phase), "Nothing."
	case len(r.Claims) == 0:
		return "it uses no claims, so that no volume keeps it from a node", f.elsewhere(r)
	}
	blocking, others := split(troubles)
	assigned := f.pod.Spec.NodeName
	switch {
	case assigned != "" && assigned == f.target.Gone:
		return fmt.Sprintf("it is on node %s, which does not exist any more", assigned), "kube-controller-manager deletes such pods. If it does not: `kubectl delete pod " + f.pod.Name + " --namespace " + f.pod.Namespace + "`."
	case len(blocking) > 0:
		return blocked(blocking), blocking[0].next
	case assigned != "" && allBound(r.Claims):
		return fmt.Sprintf("all its claims are bound, and it is on node %s", assigned), f.elsewhere(r)
	case len(others) > 0:
		return clauses(others), others[0].next
	}
	if e := f.waiting(); e != nil {
		return fmt.Sprintf("prebind has it waiting, as of %s: %s", ago(f.now, e.Last), oneLine(e.Message)), "Wait. `prebind status` shows who else does."
	}
	return f.allowed(r), f.elsewhere(r)
}

// split sorts out the claims that keep the pod from a node, those that are against all
// nodes first, and those that are in some other trouble.
func split(troubles []trouble) (blocking, others []trouble) {
	var partly []trouble
	for _, t := range troubles {
		switch {
		case t.blocks && t.everywhere:
			blocking = append(blocking, t)
		case t.blocks:
			partly = append(partly, t)
		case t.what != "":
			others = append(others, t)
		}
	}
	return append(blocking, partly...), others
}

// blocked is for a pod that cannot go to any of the nodes.
func blocked(troubles []trouble) string {
	if !troubles[0].everywhere {
		return "no node suits all its claims: " + clauses(troubles)
	}
	return clauses(troubles)
}

func clauses(troubles []trouble) string {
	var texts []string
	for _, t := range troubles[:min(maxTroubles, len(troubles))] {
		texts = append(texts, t.what)
	}
	text := strings.Join(texts, "; ")
	if more := len(troubles) - maxTroubles; more > 0 {
		text += fmt.Sprintf("; and so on with %s", plural(more, "more claim"))
	}
	return text
}

// waiting returns what a running prebind said of late that the pod waits for, or nil.
// It says so each minute, and writes what it says again after half a minute.
func (f *findings) waiting() *Event {
	for i := range f.podEvents {
		e := &f.podEvents[i]
		if e.Reason == volumes.ReasonWaiting && e.From == events.Controller && f.now.Sub(e.Last) < 2*volumes.NoticeAfter && f.pod.Spec.NodeName == "" {
			return e
		}
	}
	return nil
}

// allowed is for a pod whose claims need nothing.
func (f *findings) allowed(r *Report) string {
	if gates := f.pod.Spec.SchedulingGates; len(gates) > 0 {
		return fmt.Sprintf("it is held by its scheduling gate %s, not by its claims", gates[0].Name)
	}
	n, node := &r.Nodes, r.Target.Node
	switch {
	case node != "" && (n.Considered == 0 || n.Unknown > 0):
		return fmt.Sprintf("whether its claims allow node %s cannot be told with your rights", node)
	case node != "" && f.excluded:
		return fmt.Sprintf("its claims allow node %s, but its own nodeSelector or node affinity does not", node)
	case node != "":
		return fmt.Sprintf("its claims allow node %s", node)
	case n.Considered == 0 && f.lacks.has("list", "nodes", ""):
		return "which nodes its claims allow cannot be told with your rights"
	case n.Considered == 0 && n.LeftOut > 0:
		return fmt.Sprintf("its own nodeSelector or node affinity rules out all of %s", plural(n.LeftOut, "node"))
	case n.Considered == 0:
		return "there are no nodes"
	}
	text := fmt.Sprintf("its claims allow %d of %s", n.Fitting, plural(n.Considered, "node"))
	if n.Unknown > 0 {
		text += fmt.Sprintf("; of %d it cannot be told with your rights", n.Unknown)
	}
	return text
}

// elsewhere says where to look, if no claim has anything to be mended.
func (f *findings) elsewhere(r *Report) string {
	assigned := f.pod.Spec.NodeName
	switch {
	case len(f.pod.Spec.SchedulingGates) > 0:
		return "Whoever set the gate has to remove it."
	case assigned != "" && f.pod.Status.Phase == v1.PodPending:
		return fmt.Sprintf("It waits for the kubelet of node %s: see its events (attaching, mounting, images).", assigned)
	case assigned != "" || f.pod.Status.Phase != v1.PodPending:
		return "Nothing."
	case len(r.Missing) > 0 && len(r.Claims) > 0:
		return "Ask for the rights under \"Not known\", and run this again."
	case r.Target.Node == "" && len(r.Claims) > 0 && r.Nodes.Considered == 0:
		return "Add a node that the pod may run on, or change its nodeSelector or node affinity."
	case f.excluded:
		return "Look at a node that the pod wants, or change its nodeSelector or node affinity."
	case r.Scheduled == nil:
		return fmt.Sprintf("The scheduler (%s) has not said anything of the pod yet. If that stays so, see whether it runs, and serves that name.", f.pod.Spec.SchedulerName)
	}
	return "See what the scheduler says: " + oneLine(r.Scheduled.Message)
}

func allBound(claims []Claim) bool {
	return !slices.ContainsFunc(claims, func(c Claim) bool { return c.State != string(volumes.StateBound) })
}
