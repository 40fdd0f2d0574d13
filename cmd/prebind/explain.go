package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/internal/explain"
	"github.com/prebind/prebind/internal/version"
)

// kubectl's own limits: a person waits.
const (
	explainQPS   = 50
	explainBurst = 300
)

// explainFlags are the flags of `prebind explain pod`, as given.
type explainFlags struct {
	kubeconfig, context, namespace string
	node, output                   string
	allNodes                       bool
	timeout                        time.Duration
}

func newExplainCommand(name string) *cobra.Command {
	command := &cobra.Command{
		Use:   "explain",
		Short: "Tell why a pod waits for its volumes, and what to do",
		Long:  strings.ReplaceAll(explainHelp, "PROGRAM", name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("nothing to explain: give pod NAMESPACE/NAME, as in `%s explain pod shop/db-0`", name)
			}
			return fmt.Errorf("%q cannot be explained, only a pod can: `%s explain pod NAMESPACE/NAME`", args[0], name)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args refuses everything
	}
	command.AddCommand(newExplainPodCommand(name))
	return command
}

func newExplainPodCommand(name string) *cobra.Command {
	var flags explainFlags
	command := &cobra.Command{
		Use:     "pod NAMESPACE/NAME [--node NODE | --all-nodes] [flags]",
		Aliases: []string{"pods", "po"},
		Short:   "Explain a pod: each claim, each candidate volume, each node",
		Long:    strings.ReplaceAll(explainHelp, "PROGRAM", name),
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return fmt.Errorf("which pod? Give NAMESPACE/NAME, or NAME with --namespace, as in `%s explain pod shop/db-0`", name)
			case 1:
				return nil
			}
			return fmt.Errorf("one pod at a time, not %d: %s", len(args), strings.Join(args, " "))
		},

		DisableFlagsInUseLine: true, // Use has them
		RunE: func(command *cobra.Command, args []string) error {
			return runExplain(command.Context(), &flags, args[0], command.OutOrStdout())
		},
	}
	f := command.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: as kubectl would find it")
	f.StringVar(&flags.context, "context", "", "context of the kubeconfig; empty: the current one")
	f.StringVarP(&flags.namespace, "namespace", "n", "", "namespace of the pod, if the argument has none; empty: the context's")
	f.StringVar(&flags.node, "node", "", "node to look at; empty: the one the pod is, or will be, on, else all")
	f.BoolVar(&flags.allNodes, "all-nodes", false, "look at all nodes, the closest first")
	f.StringVarP(&flags.output, "output", "o", "table", "format: table, json or yaml")
	f.DurationVar(&flags.timeout, "timeout", 2*time.Minute, "how long all reading may take together")
	return command
}

// runExplain explains and prints. Any error but runtimeError is bad use.
func runExplain(ctx context.Context, flags *explainFlags, pod string, stdout io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	namespace, name, err := splitPod(pod, flags.namespace)
	if err != nil {
		return err
	}
	cluster, own, err := flags.cluster()
	if err != nil {
		return err
	}
	if namespace == "" {
		namespace = own
	}
	klog.SetLogger(logr.Discard()) // whoever reads an explanation has no use for client-go's own lines
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("making the client of the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	report, err := explain.Run(ctx, explain.Options{Client: client, Namespace: namespace, Pod: name, Node: flags.node, AllNodes: flags.allNodes})
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("--timeout %s was not enough: %w", flags.timeout, err)
		}
		return &runtimeError{err}
	}
	write := map[string]func(io.Writer) error{"table": report.WriteText, "json": report.WriteJSON, "yaml": report.WriteYAML}[flags.output]
	if err := write(stdout); err != nil {
		return &runtimeError{fmt.Errorf("printing the explanation: %w", err)}
	}
	return nil
}

// check tells what is wrong with the flags alone.
func (flags *explainFlags) check() error {
	switch {
	case !slices.Contains([]string{"table", "json", "yaml"}, flags.output):
		return fmt.Errorf("unknown --output %q, known ones: table, json, yaml", flags.output)
	case flags.node != "" && flags.allNodes:
		return fmt.Errorf("--node %s and --all-nodes do not go together: leave one out", flags.node)
	case flags.timeout <= 0:
		return fmt.Errorf("--timeout %s: must be more than 0", flags.timeout)
	case flags.node != "":
		return checkName("--node", flags.node)
	}
	return nil
}

// splitPod reads NAMESPACE/NAME or NAME. An empty namespace is the context's.
func splitPod(pod, flag string) (namespace, name string, err error) {
	name = pod
	if before, after, found := strings.Cut(pod, "/"); found {
		namespace, name = before, after
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return "", "", fmt.Errorf("pod %q: must be NAMESPACE/NAME, such as shop/db-0, or NAME with --namespace", pod)
		}
		if flag != "" && flag != namespace {
			return "", "", fmt.Errorf("pod %s and --namespace %s name two namespaces: leave one out", pod, flag)
		}
	} else {
		namespace = flag
	}
	if namespace != "" {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return "", "", fmt.Errorf("namespace %q: %s", namespace, problems[0])
		}
	}
	return namespace, name, checkName("pod", name)
}

func checkName(what, name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%s %q: %s", what, name, problems[0])
	}
	return nil
}

// cluster finds the API server, and the namespace that is meant where none is
// given, as kubectl does.
func (flags *explainFlags) cluster() (cluster *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = flags.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: flags.context})
	cluster, err = loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("no cluster: no kubeconfig was found (%s), and this is no pod of a cluster; give --kubeconfig", strings.Join(rules.Precedence, ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w; see `kubectl config view`, or give another with --kubeconfig", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w", err)
	}
	cluster.QPS, cluster.Burst = explainQPS, explainBurst
	cluster.UserAgent = "prebind-explain/" + version.Get().Version
	cluster.ContentType = runtime.ContentTypeProtobuf
	cluster.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cluster.WarningHandler = rest.NoWarnings{}
	return cluster, namespace, nil
}

const explainHelp = `Tell why a pod waits for its volumes: for each claim its state, what it waits for,
which volumes were considered and why each was refused, what happens on a node,
the last events, and what to do next. The decision is the one that the service
makes, by the same code. Nothing is changed, and prebind need not be installed:
your kubeconfig and the right to read are enough, and what you may not read is told.

Without --node and --all-nodes it looks at the node that the pod is assigned to,
that a claim is being provisioned for, or that the pod is nominated for; else at
all nodes. Only volumes are looked at: taints, CPU and the rest are the scheduler's.

  # Why does it not start?
  PROGRAM explain pod shop/db-0
  PROGRAM explain pod db-0 --namespace shop

  # What would happen on one node; which nodes are how close:
  PROGRAM explain pod shop/db-0 --node node-7
  PROGRAM explain pod shop/db-0 --all-nodes

  # For a program:
  PROGRAM explain pod shop/db-0 -o json | jq '.claims[] | {claim, state, reasons}'

Exit codes: 0 explained, 1 the pod or the node does not exist or the API server
cannot be read, 2 bad use. See docs/explain.md.`
