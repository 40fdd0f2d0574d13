package explain

import (
	"encoding/json"
	"io"
	"time"

	"sigs.k8s.io/yaml"
)

// Report is the explanation of a pod. Its JSON is stable but for the texts; lists are
// never null.
type Report struct {
	// Time is when it was made.
	Time time.Time `json:"time"`
	// Pod is NAMESPACE/NAME.
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Phase string `json:"phase"`
	// Created is when the pod was.
	Created time.Time `json:"created"`
	// Node is the one that the pod is assigned to; "" none.
	Node string `json:"node,omitempty"`
	// Scheduled is what the scheduler says of the pod, if it has not placed it.
	Scheduled *Scheduled `json:"scheduled,omitempty"`
	// Target says which nodes were looked at.
	Target Target `json:"target"`
	// Verdict says in a clause how the pod stands with its volumes.
	Verdict string `json:"verdict"`
	// Next is what to do next, for the pod as a whole.
	Next   string  `json:"next"`
	Claims []Claim `json:"claims"`
	Nodes  Nodes   `json:"nodes"`
	Events []Event `json:"events"`
	// Missing are the rights that you lack, and what is not known for want of them.
	Missing []string `json:"missing"`
}

// Scheduled is the pod's condition PodScheduled.
type Scheduled struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Target is which nodes were looked at.
type Target struct {
	// Node is the only one; "" is all nodes.
	Node string `json:"node,omitempty"`
	// Why it is this one, or all.
	Why string `json:"why"`
	// Gone is a node that would have been looked at and does not exist.
	Gone string `json:"gone,omitempty"`
}

// Claim is the explanation of one claim.
type Claim struct {
	// Claim is NAMESPACE/NAME.
	Claim     string `json:"claim"`
	Ephemeral bool   `json:"ephemeral,omitempty"`
	// State is one of those of package volumes, or Unknown.
	State        string   `json:"state"`
	Class        string   `json:"class"`
	BindingMode  string   `json:"bindingMode"`
	Provisioner  string   `json:"provisioner,omitempty"`
	Size         string   `json:"size"`
	AccessModes  []string `json:"accessModes"`
	VolumeMode   string   `json:"volumeMode,omitempty"`
	Volume       string   `json:"volume,omitempty"`
	SelectedNode string   `json:"selectedNode,omitempty"`
	// WaitsFor is what has to happen next, and by whom; "" is nothing.
	WaitsFor string `json:"waitsFor,omitempty"`
	// OnNode is what happens on the node, if one was looked at.
	OnNode *Outcome `json:"onNode,omitempty"`
	// Candidates are volumes that were looked at, if the claim chooses one.
	Candidates *Candidates `json:"candidates,omitempty"`
	// Reasons say what keeps the claim from being bound and used; empty if nothing does.
	Reasons []string `json:"reasons"`
	Events  []Event  `json:"events"`
	// Next is what to do; "" is nothing.
	Next string `json:"next,omitempty"`
}

// Outcome is what happens about a claim on a node.
type Outcome struct {
	Claim string `json:"claim"`
	// Outcome is bound, binding, bind, provision, refused or unknown.
	Outcome     string `json:"outcome"`
	Volume      string `json:"volume,omitempty"`
	Provisioner string `json:"provisioner,omitempty"`
	// Code is prebind's error code, of a refusal.
	Code string `json:"code,omitempty"`
	// Reason is why it is refused, or not known.
	Reason string `json:"reason,omitempty"`

	general string // reason in kube-scheduler's words, which name no node, for the counts
}

// Candidates are volumes that were looked at for a claim.
type Candidates struct {
	Considered int `json:"considered"`
	Fitting    int `json:"fitting"`
	// Fit names the first of these, the smallest first.
	Fit []string `json:"fit"`
	// Refused counts each other volume once, under the first thing wrong with it.
	Refused []Count `json:"refused"`
	// Nearest are the refused volumes with the fewest things wrong.
	Nearest []Volume `json:"nearest"`
}

// Volume is a refused volume.
type Volume struct {
	Volume  string   `json:"volume"`
	Reasons []string `json:"reasons"`
}

// Count is how often there is a reason.
type Count struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// Nodes are the nodes that were looked at.
type Nodes struct {
	Considered int `json:"considered"`
	Fitting    int `json:"fitting"`
	Unknown    int `json:"unknown"`
	// LeftOut are nodes that the pod's own nodeSelector or node affinity rules out.
	LeftOut int `json:"leftOut"`
	// Reasons count the nodes by what the claims have against them.
	Reasons []Count `json:"reasons"`
	// Nodes are in the order of how close they are.
	Nodes []Node `json:"nodes"`
}

// Node is one of them.
type Node struct {
	Node string `json:"node"`
	// Fits is yes, no or unknown.
	Fits string `json:"fits"`
	// Refused counts the claims that refuse it.
	Refused int       `json:"refused"`
	Claims  []Outcome `json:"claims"`
}

// Event is one that was recorded about the pod or a claim.
type Event struct {
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	From    string    `json:"from"` // who recorded it
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
}

// The values of Node.Fits.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteYAML writes the same as YAML.
func (r *Report) WriteYAML(w io.Writer) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
