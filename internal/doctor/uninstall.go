package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prebind/prebind/internal/registration"
)

// recently is how fresh a bind call must be to show that a scheduler still
// calls.
const recently = 5 * time.Minute

// order is how to take prebind out without harm.
const order = `In this order:
1. in the scheduler's configuration, remove VolumeBinding from the disabled lists of every profile, and prebind's entries from extenders, in one step (prebind scheduler-config --mode none --patch FILE)
2. restart every kube-scheduler with it, and see that a new pod is bound
3. run prebind doctor --before-uninstall again, until it finds nothing
4. uninstall prebind`

// checkUninstall says whether prebind may be taken away now. What it cannot
// know is a fault, too.
func (e *exam) checkUninstall(context.Context) outcome {
	var findings []Finding
	findings = append(findings, e.uninstallCalls()...)
	if e.registered != nil {
		findings = append(findings, uninstallFile(e.SchedulerConfig, e.registered)...)
	} else {
		findings = append(findings, e.uninstallUnseen())
	}
	if len(findings) == 0 {
		return outcome{summary: "prebind may be uninstalled"}
	}
	for _, finding := range findings {
		if finding.Severity == Fault {
			return outcome{summary: "do not uninstall prebind now", findings: findings}
		}
	}
	return outcome{summary: "no pod waits in prebind", findings: findings}
}

// uninstallCalls looks for bind calls that run, in every replica.
func (e *exam) uninstallCalls() []Finding {
	known, all := e.read()
	var findings []Finding
	if !all {
		cause := e.noReplicas
		var blind []string
		for _, r := range e.replicas {
			if r.err != nil {
				blind = append(blind, fmt.Sprintf("%s: %v", r.name, r.err))
			}
		}
		if len(blind) > 0 {
			cause = strings.Join(blind, "; ")
		}
		findings = append(findings, Finding{
			Severity: Fault, Object: "prebind", What: "whether pods wait in prebind cannot be known: " + cause,
			Why: "A pod that waits in a bind call loses it with prebind, and its volumes are left half bound.",
			Mend: "Look by hand, for every replica: kubectl -n kube-system port-forward POD 8889, then prebind doctor --before-uninstall --metrics http://127.0.0.1:8889; " +
				metricInFlight + " must be 0. If no prebind runs any more, see that no pod of its schedulers is left without a node.",
		})
	}
	if sum := sumUp(known); sum.inFlight > 0 {
		who := ""
		if e.waiting != nil && len(e.waiting.untried) > 0 {
			who = " (among " + podNames(e.waiting.untried) + ")"
		}
		findings = append(findings, Finding{
			Severity: Fault, Object: "prebind", What: fmt.Sprintf("%s in prebind%s", has(sum.inFlight, "bind call"), who),
			Why:  "Their pods wait for volumes. Without prebind the calls fail, and what was begun for their claims is left to a scheduler that must know how to go on.",
			Mend: "Wait until " + metricInFlight + " is 0, or delete the pods that can never get their volumes.",
		})
	}
	return findings
}

// uninstallFile looks for what the scheduler's file still asks of prebind.
func uninstallFile(path string, found *registration.Found) []Finding {
	switch {
	case found.Mode == registration.ModeNone:
		return nil
	case found.Mode == registration.ModeStock:
		return []Finding{{
			Severity: Fault, Object: path + " " + found.Path, What: "the scheduler still has prebind as its bind extender",
			Why:  "Without prebind every bind call fails, and no pod is bound.",
			Mend: order,
		}}
	case found.URL == "":
		return []Finding{{
			Severity: Fault, Object: path, What: "VolumeBinding is still disabled, with nobody to bind volumes in its place",
			Why:  "The scheduler binds pods whose claims are unbound: they hang in ContainerCreating.",
			Mend: order,
		}}
	}
	return []Finding{{
		Severity: Fault, Object: path + " " + found.Path, What: fmt.Sprintf("the scheduler still needs prebind (mode %s): VolumeBinding is disabled, and the bind entry is there", found.Mode),
		Why:  "Without prebind no pod is bound; without the entry alone, pods start with unbound claims.",
		Mend: order,
	}}
}

// uninstallUnseen is the verdict without the scheduler's file.
func (e *exam) uninstallUnseen() Finding {
	known, _ := e.read()
	finding := Finding{
		Severity: Advice, Object: "scheduler", What: "its configuration was not given",
		Why:  "If VolumeBinding is still disabled there, or prebind's entry is still in it, no pod is bound, or pods start with unbound claims.",
		Mend: "Give --scheduler-config.\n" + order,
	}
	if last := sumUp(known).last; !last.IsZero() && e.Now.Sub(last) < recently {
		finding.Severity = Fault
		finding.What = fmt.Sprintf("a scheduler still calls prebind: the last bind call came %s", ago(e.Now, last))
	}
	return finding
}
