package server

import (
	"bytes"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prebind/prebind/internal/fault"
	"github.com/prebind/prebind/volumes"
)

// nodeArgs is an ExtenderArgs of which nothing is decoded that is not needed: of
// the pod its claims, of the nodes nothing before somebody asks.
type nodeArgs struct {
	Pod       *wirePod
	Nodes     *wireNodes
	NodeNames json.RawMessage

	names []string // of NodeNames, once they are known
}

type wirePod struct {
	Metadata struct {
		Name              string       `json:"name"`
		Namespace         string       `json:"namespace"`
		UID               types.UID    `json:"uid"`
		ResourceVersion   string       `json:"resourceVersion"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
		Volumes  []struct {
			Name                  string                                `json:"name"`
			PersistentVolumeClaim *v1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim"`
			Ephemeral             *struct{}                             `json:"ephemeral"`
		} `json:"volumes"`
	} `json:"spec"`
}

type wireNodes struct {
	Items []json.RawMessage `json:"items"`
}

// pod returns what the claims of the pod need of it.
func (a *nodeArgs) pod() (*v1.Pod, error) {
	if a.Pod == nil {
		return nil, fault.New(fault.InvalidRequest, "the argument Pod is missing")
	}
	switch {
	case a.byName() && a.NodeNames[0] != '[':
		return nil, fault.New(fault.InvalidRequest, "decoding NodeNames: a list of strings is needed")
	case !a.byName() && a.Nodes == nil:
		return nil, fault.New(fault.InvalidRequest, "the arguments NodeNames and Nodes are both missing")
	}
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = a.Pod.Metadata.Name, a.Pod.Metadata.Namespace, a.Pod.Metadata.UID
	pod.ResourceVersion, pod.DeletionTimestamp, pod.Spec.NodeName = a.Pod.Metadata.ResourceVersion, a.Pod.Metadata.DeletionTimestamp, a.Pod.Spec.NodeName
	for _, source := range a.Pod.Spec.Volumes {
		kept := v1.Volume{Name: source.Name}
		kept.PersistentVolumeClaim = source.PersistentVolumeClaim
		if source.Ephemeral != nil {
			kept.Ephemeral = &v1.EphemeralVolumeSource{}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, kept)
	}
	if volumes.HasClaims(pod) && (pod.Name == "" || pod.Namespace == "" || pod.UID == "") {
		return nil, fault.New(fault.InvalidRequest, "the pod has claims, but no name, no namespace or no UID")
	}
	return pod, nil
}

// byName tells in which of the two modes the nodes were sent.
func (a *nodeArgs) byName() bool { return len(a.NodeNames) > 0 && a.NodeNames[0] != 'n' } // null

// nodes returns the nodes in the order in which they were sent. Of a node that was
// sent whole the labels count: they are what the scheduler judges all else by,
// and such a node is never unknown. The bind call judges by the newest.
func (a *nodeArgs) nodes() ([]volumes.Node, error) {
	if a.byName() {
		if a.names == nil {
			if err := json.Unmarshal(a.NodeNames, &a.names); err != nil {
				return nil, fault.New(fault.InvalidRequest, "decoding NodeNames: a list of strings is needed: %w", err)
			}
		}
		nodes := make([]volumes.Node, len(a.names))
		for i, name := range a.names {
			nodes[i].Name = name
		}
		return nodes, nil
	}
	nodes := make([]volumes.Node, len(a.Nodes.Items))
	for i, item := range a.Nodes.Items {
		var node struct {
			Metadata struct {
				Name   string            `json:"name"`
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(item, &node); err != nil {
			return nil, fault.New(fault.InvalidRequest, "decoding Nodes.items[%d]: %w", i, err)
		}
		nodes[i] = volumes.Node{Name: node.Metadata.Name, Labels: node.Metadata.Labels, Sent: true}
	}
	return nodes, nil
}

// beforeNames is how kube-scheduler's json.Marshal begins the names of nodes, the
// last member of the arguments. No string in JSON has it in it.
const beforeNames = `,"NodeNames":["`

// decodeJSON decodes as json.Unmarshal does. Nearly all of a body are the names of
// thousands of nodes, in which nothing is escaped: where they come as
// kube-scheduler sends them they are cut out, in a tenth of the time.
func (a *nodeArgs) decodeJSON(body []byte) error {
	at := bytes.LastIndex(body, []byte(beforeNames))
	if at >= 0 {
		list := body[at+len(beforeNames)-len(`["`) : len(body)-1]
		names, ok := cutNames(list)
		// Only with the list at the end of the outermost object is the rest one.
		if ok && json.Unmarshal(append(bytes.Clone(body[:at]), '}'), a) == nil {
			a.NodeNames, a.names = list, names
			return nil
		}
		*a = nodeArgs{}
	}
	return json.Unmarshal(body, a)
}

// cutNames returns the names if list is ["a","b"], of plain characters alone.
func cutNames(list []byte) ([]string, bool) {
	if len(list) < len(`[""]`) || list[len(list)-2] != '"' || list[len(list)-1] != ']' {
		return nil, false
	}
	for _, c := range list {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, false
		}
	}
	names := strings.Split(string(list[len(`["`):len(list)-len(`"]`)]), `","`)
	for _, name := range names {
		if strings.IndexByte(name, '"') >= 0 {
			return nil, false // white space, or something that is no string
		}
	}
	return names, true
}
