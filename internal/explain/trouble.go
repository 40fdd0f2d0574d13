package explain

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// trouble is what stands between a claim and its pod: what, in a clause, and the next
// step, in a sentence or two. Its zero value is none.
type trouble struct {
	what, next string
	blocks     bool // it keeps the pod from nodes, and there is none left
	everywhere bool // it keeps the pod from all of them
}

// subject is a claim with what its trouble depends on.
type subject struct {
	*Claim
	name      string // of the claim, without its namespace
	explained *volumes.ExplainedClaim
	pod       *v1.Pod
	now       time.Time
	where     where
	outcome   *volumes.Outcome // on one of the nodes that it refuses
	gone      bool             // the selected node does not exist
}

// where are the nodes that the claim refuses.
type where struct {
	node            string // if only one was looked at
	refused, looked int
}

// String is "on node n1", "on any of 3 nodes" or "on 2 of 3 nodes".
func (w where) String() string {
	switch {
	case w.node != "":
		return "on node " + w.node
	case w.refused < w.looked:
		return fmt.Sprintf("on %d of %s", w.refused, plural(w.looked, "node"))
	}
	return "on any of " + plural(w.looked, "node")
}

// cannotReach is "node n1 cannot reach" or "none of 3 nodes can reach".
func (w where) cannotReach() string {
	switch {
	case w.node != "":
		return "node " + w.node + " cannot reach"
	case w.refused < w.looked:
		return fmt.Sprintf("%d of %s cannot reach", w.refused, plural(w.looked, "node"))
	}
	return "none of " + plural(w.looked, "node") + " can reach"
}

// one is who should reach what has to be made.
func (w where) one() string {
	if w.node != "" {
		return "node " + w.node
	}
	return "one of the nodes"
}

// trouble tells what is in the way of the claim.
func (f *findings) trouble(i int, c *Claim, nodes *Nodes) trouble {
	e := &f.explanation.Claims[i]
	if why := f.notKnown(e); why != "" {
		return trouble{}
	}
	s := &subject{Claim: c, name: e.Name, explained: e, pod: f.pod, now: f.now, outcome: &volumes.Outcome{}}
	s.gone = c.SelectedNode != "" && c.SelectedNode == f.target.Gone
	code := f.codeOf(i, nodes)
	s.where = where{node: f.target.Node, looked: nodes.Considered}
	if nodes.Considered == 1 {
		s.where.node = nodes.Nodes[0].Node
	}
	for n := range f.explanation.Nodes {
		o := &f.explanation.Nodes[n].Claims[i]
		if o.Kind == volumes.OutcomeRefused {
			s.where.refused++
		}
		if o.Code == code && (s.outcome.Code == "" || more(o.Room, s.outcome.Room)) {
			s.outcome = o
		}
	}
	var what, next string
	switch code {
	case "":
		what, next = s.underWay()
	case fault.NoVolume:
		what, next = s.noVolume()
	case fault.NoCapacity:
		what, next = s.noCapacity()
	case fault.NodeConflict:
		what, next = s.nodeConflict()
	case fault.SelectedNodeConflict:
		what, next = s.selectedNode()
	case fault.ClaimUnbound:
		what, next = s.unbound()
	default:
		what, next = s.broken(code)
	}
	return trouble{what, next, code != "", e.Code != "" || s.where.refused == s.where.looked}
}

// underWay is for a claim that refuses no node.
func (s *subject) underWay() (what, next string) {
	event := failure(s.Events)
	switch volumes.ClaimState(s.State) {
	case volumes.StateProvisioning:
		if event != nil {
			return s.failed(event), s.mend("it tries again by itself")
		}
		return s.waits(), fmt.Sprintf("Wait. If nothing comes, see whether provisioner %s runs, and its log: nothing else serves storageclass %s.", s.Provisioner, s.Class)
	case volumes.StateBinding:
		return s.waits(), "Wait: it takes moments. If it does not end, see whether kube-controller-manager runs."
	case volumes.StatePending:
		if s.pod.Spec.NodeName != "" && s.pod.Status.Phase == v1.PodPending {
			return fmt.Sprintf("claim %s is unbound, and the pod is on node %s already: no scheduler will have it bound", s.name, s.pod.Spec.NodeName),
				fmt.Sprintf("Delete pod %s, and make it anew without spec.nodeName, for a scheduler to place.", s.podName())
		}
		if event != nil && s.provisions() {
			return s.failed(event) + "; it gave the claim back", s.mend("the scheduler tries again by itself")
		}
	}
	return "", ""
}

// waits is for a claim that somebody else is at.
func (s *subject) waits() string { return "claim " + s.name + " waits for " + s.WaitsFor }

// failed says what the provisioner said, and when.
func (s *subject) failed(event *Event) string {
	return fmt.Sprintf("provisioner %s failed to make a volume for claim %s, %s: %s", s.Provisioner, s.name, ago(s.now, event.Last), oneLine(event.Message))
}

func (s *subject) mend(after string) string {
	return fmt.Sprintf("Mend what the provisioner complains of (see its log, and storageclass %s); %s.", s.Class, after)
}

func (s *subject) provisions() bool {
	return s.Provisioner != "" && s.Provisioner != volume.NotSupportedProvisioner
}

func (s *subject) noVolume() (what, next string) {
	what = fmt.Sprintf("no available volume fits claim %s (%s) %s", s.name, s.wish(), s.where)
	if next = s.releasedToEarlier(); next != "" {
		return what, next
	}
	create := fmt.Sprintf("create a volume of %s, that %s can reach", s.needs(), s.where.one())
	if c := s.Candidates; c != nil && c.Fitting > 0 { // but for the nodes
		next = fmt.Sprintf("Volume %s fits, but can be reached from nodes with %s only, and none of these suits the pod with all its claims: see what keeps it from them, or %s.",
			c.Fit[0], volumes.AffinityText(s.explained.Candidates.Fit[0]), create)
		return what, next
	}
	next = strings.ToUpper(create[:1]) + create[1:]
	if s.provisions() {
		return what, next + fmt.Sprintf("; or have storageclass %s provision there, which its allowedTopologies rule out.", s.Class)
	}
	return what, next + fmt.Sprintf("; storageclass %s provisions none.", s.Class)
}

// wish is what the claim asks for, in short.
func (s *subject) wish() string {
	wish := "class " + s.Class
	if s.Size != "" {
		wish = s.Size + ", " + wish
	}
	return wish
}

// needs is what a volume must have for the claim.
func (s *subject) needs() string {
	needs := "class " + dash(s.Class)
	if s.Size != "" {
		needs += ", " + s.Size + " or more"
	}
	needs += ", " + strings.Join(s.AccessModes, ", ")
	if s.VolumeMode == string(v1.PersistentVolumeBlock) {
		needs += ", " + s.VolumeMode
	}
	if s.explained.Claim.Spec.Selector != nil {
		needs += ", with the labels that the claim's selector asks for"
	}
	return needs
}

// releasedToEarlier is for a volume that would fit, but that an earlier claim of this
// name has left behind.
func (s *subject) releasedToEarlier() string {
	if s.explained.Candidates == nil {
		return ""
	}
	for _, near := range s.explained.Candidates.Nearest {
		ref := near.Volume.Spec.ClaimRef
		if len(near.Why) == 1 && ref != nil && ref.Namespace == s.pod.Namespace && ref.Name == s.name {
			return fmt.Sprintf("Volume %[1]s would fit, but belongs to an earlier claim of this name, with its data. If this claim may have it: "+
				"`kubectl patch pv %[1]s --type json --patch '[{\"op\":\"remove\",\"path\":\"/spec/claimRef/uid\"}]'`.", near.Volume.Name)
		}
	}
	return ""
}

func (s *subject) noCapacity() (what, next string) {
	what = fmt.Sprintf("there is not enough free storage for claim %s (%s) %s", s.name, s.wish(), s.where)
	if s.outcome.Room != nil {
		return what + ": " + room(s.outcome.Room), "Free or add storage there, or make the claim anew and smaller."
	}
	return what + ": driver " + s.Provisioner + " reports none", "See whether the driver's external-provisioner runs with --enable-capacity, and whether the nodes have its topology labels: " +
		"`kubectl get csistoragecapacities --all-namespaces`."
}

func (s *subject) nodeConflict() (what, next string) {
	pv := s.outcome.Volume
	if pv == nil { // promised to the claim for another pod
		return "claim " + s.name + ": " + s.outcome.Cause, "Run this again in a moment."
	}
	there := "Let the pod go to a node with " + volumes.AffinityText(pv)
	if s.Volume == "" {
		return fmt.Sprintf("claim %s is pre-bound to volume %s, which %s", s.name, pv.Name, s.where.cannotReach()), there + ", or take the volume's claimRef away."
	}
	return fmt.Sprintf("claim %s is bound to volume %s, which %s", s.name, pv.Name, s.where.cannotReach()),
		there + ": see its nodeSelector and affinity, and the taints and free resources of these nodes. If none of them comes back, the volume cannot be used any more."
}

func (s *subject) selectedNode() (what, next string) {
	what = fmt.Sprintf("claim %s is being provisioned for node %s", s.name, s.SelectedNode)
	if s.gone {
		return what + ", which does not exist any more", fmt.Sprintf("See that provisioner %s runs: it alone may give the claim back, and does when it notices. "+
			"If it never does, and no volume is in the making, take the node off: `kubectl annotate pvc %s --namespace %s %s-`.", s.Provisioner, s.name, s.pod.Namespace, volume.AnnSelectedNode)
	}
	if s.where.node != "" {
		what += ", not " + s.where.node
	}
	return what, "Wait until its volume is there, and let the pod go to that node; or until the provisioner gives the claim back."
}

func (s *subject) podName() string { return s.pod.Namespace + "/" + s.pod.Name }
