package explain

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/volume"

	"github.com/prebind/prebind/volumes"
)

// Options say what to explain.
type Options struct {
	// Client reads as the user; no watch and no write is sent.
	Client kubernetes.Interface
	// Namespace and Pod name the pod.
	Namespace, Pod string
	// Node is the one to look at. Empty: the pod's, as far as it has one, else all.
	Node string
	// AllNodes looks at all nodes, whichever the pod has.
	AllNodes bool
	// Now is the time. Zero: the clock's.
	Now time.Time
}

// allNodesAsked is why, if nothing else is.
const allNodesAsked = "--all-nodes asks for it"

// findings are all that was read. What follows from it is pure.
type findings struct {
	now         time.Time
	pod         *v1.Pod
	target      Target
	explanation *volumes.Explanation
	leftOut     int
	// excluded tells that the pod's own node affinity rules the target out.
	excluded  bool
	lacks     lacks
	podEvents []Event
	events    map[string][]Event // by claim
}

// Run reads what it needs, once, and explains. The error is that the pod, or a node
// that was asked for, does not exist, or that the API server cannot be read.
// Rights that are missing are no error, but for the one to read the pod.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	f, err := read(ctx, opts)
	if err != nil {
		return nil, err
	}
	return f.compose(), nil
}

func read(ctx context.Context, opts Options) (*findings, error) {
	f := &findings{now: opts.Now}
	var err error
	if f.pod, err = opts.Client.CoreV1().Pods(opts.Namespace).Get(ctx, opts.Pod, metav1.GetOptions{}); err != nil {
		return nil, cannotRead(err, opts)
	}
	caches, err := volumes.NewCaches(opts.Client)
	if err != nil {
		return nil, err
	}
	prebinder, err := volumes.New(volumes.Config{Client: opts.Client, Caches: caches})
	if err != nil {
		return nil, err
	}
	lacks, err := caches.Load(ctx, opts.Client, f.pod)
	if err != nil {
		return nil, fmt.Errorf("reading what the claims of pod %s/%s depend on: %w", opts.Namespace, opts.Pod, err)
	}
	f.lacks = append(f.lacks, lacks...)
	nodes, err := f.findNodes(ctx, opts, caches)
	if err != nil {
		return nil, err
	}
	if f.explanation, err = prebinder.Explain(ctx, f.pod, nodes); err != nil {
		return nil, fmt.Errorf("explaining pod %s/%s: %w", opts.Namespace, opts.Pod, err)
	}
	err = f.readEvents(ctx, opts.Client)
	return f, err
}

func cannotRead(err error, opts Options) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s/%s does not exist: see `kubectl get pods --namespace %s`", opts.Namespace, opts.Pod, opts.Namespace)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not get pods in namespace %s, without which nothing can be explained; ask for the right: %w", opts.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("reading pod %s/%s: the API server does not know you; see `kubectl auth whoami`: %w", opts.Namespace, opts.Pod, err)
	}
	return fmt.Errorf("reading pod %s/%s: see whether `kubectl cluster-info` reaches the cluster: %w", opts.Namespace, opts.Pod, err)
}

// findNodes reads the node to look at, or all nodes that the pod itself allows.
func (f *findings) findNodes(ctx context.Context, opts Options, caches *volumes.Caches) ([]*v1.Node, error) {
	f.target = f.choose(opts, caches)
	if !volumes.HasClaims(f.pod) && opts.Node == "" {
		return nil, nil
	}
	required := nodeaffinity.GetRequiredNodeAffinity(f.pod)
	if name := f.target.Node; name != "" {
		lacks, err := caches.LoadNodes(ctx, opts.Client, name)
		f.lacks = append(f.lacks, lacks...)
		if err != nil {
			return nil, fmt.Errorf("reading node %s: %w", name, err)
		}
		node, err := caches.Nodes.Get(name)
		switch {
		case err == nil:
			f.excluded = !allows(&required, node)
			return []*v1.Node{node}, nil
		case f.lacks.has("get", "nodes", name):
			return nil, nil
		case opts.Node != "":
			return nil, fmt.Errorf("node %s does not exist: see `kubectl get nodes`", name)
		}
		f.target = Target{Why: "node " + name + " does not exist; " + f.target.Why, Gone: name}
	}
	lacks, err := caches.LoadNodes(ctx, opts.Client, "")
	f.lacks = append(f.lacks, lacks...)
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	all, err := caches.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var nodes []*v1.Node
	for _, node := range all {
		if !allows(&required, node) {
			f.leftOut++
			continue
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// allows tells whether the pod's own affinity does. One that cannot be parsed does not.
func allows(affinity *nodeaffinity.RequiredNodeAffinity, node *v1.Node) bool {
	allowed, err := affinity.Match(node)
	return err == nil && allowed
}

// choose tells which node to look at: the one that the pod is, or will be, on.
func (f *findings) choose(opts Options, caches *volumes.Caches) Target {
	switch {
	case opts.Node != "":
		return Target{Node: opts.Node, Why: "--node names it"}
	case opts.AllNodes:
		return Target{Why: allNodesAsked}
	case f.pod.Spec.NodeName != "":
		return Target{Node: f.pod.Spec.NodeName, Why: "the pod is assigned to it"}
	}
	for _, key := range volumes.ClaimNames(f.pod) {
		name := key[len(f.pod.Namespace)+1:]
		claim, err := caches.Claims.PersistentVolumeClaims(f.pod.Namespace).Get(name)
		if err != nil || claim.Spec.VolumeName != "" {
			continue
		}
		if selected := claim.Annotations[volume.AnnSelectedNode]; selected != "" {
			return Target{Node: selected, Why: "claim " + name + " is being provisioned for it (annotation selected-node)"}
		}
	}
	if nominated := f.pod.Status.NominatedNodeName; nominated != "" {
		return Target{Node: nominated, Why: "the pod is nominated for it"}
	}
	return Target{Why: "the pod has no node yet"}
}

// lacks are what could not be read for want of rights.
type lacks []volumes.Lack

func (l lacks) has(verb, resource, name string) bool {
	for _, lack := range l {
		if lack.Verb == verb && lack.Resource == resource && lack.Name == name {
			return true
		}
	}
	return false
}
