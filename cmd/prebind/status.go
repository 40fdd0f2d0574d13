package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/internal/status"
)

// watchInterval is how often `prebind status --watch` asks.
const watchInterval = time.Second

// statusFlags are the flags of `prebind status`, as given.
type statusFlags struct {
	address, namespace, service, deployment string
	kubeconfig, output                      string
	watch                                   bool
}

func newStatusCommand() *cobra.Command {
	var flags statusFlags
	command := &cobra.Command{
		Use:   "status [--address HOST:PORT | --namespace NAMESPACE --service NAME] [flags]",
		Short: "Show what a running prebind waits for, and what it did last",
		Long:  statusHelp,
		Args:  cobra.NoArgs,

		DisableFlagsInUseLine: true, // Use has them
		RunE: func(command *cobra.Command, _ []string) error {
			sources, err := flags.sources(command.Flags().Changed)
			if err != nil {
				return err
			}
			view := &statusView{sources: sources, json: flags.output == "json", out: command.OutOrStdout(), errs: command.ErrOrStderr()}
			if !flags.watch {
				return view.once(command.Context())
			}
			return view.watch(command.Context(), watchInterval)
		},
	}
	f := command.Flags()
	f.StringVar(&flags.address, "address", "127.0.0.1:8889", "HOST:PORT of the ops listener (server.opsAddress)")
	f.StringVar(&flags.namespace, "namespace", "kube-system", "namespace of --service or --deployment")
	f.StringVar(&flags.service, "service", "", "ask all pods of this Service, through the API server")
	f.StringVar(&flags.deployment, "deployment", "", "ask all pods of this Deployment, through the API server")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "kubeconfig file, for --service and --deployment; empty: as prebind serve would find it")
	f.BoolVarP(&flags.watch, "watch", "w", false, "go on, each second; on a terminal in place, until interrupted")
	f.StringVarP(&flags.output, "output", "o", "table", "format: table or json")
	return command
}

// sources returns who is to be asked, found out anew each time. Its own error is
// bad use.
func (flags *statusFlags) sources(given func(flag string) bool) (func(context.Context) ([]status.Source, error), error) {
	inCluster := flags.service != "" || flags.deployment != ""
	switch {
	case flags.output != "table" && flags.output != "json":
		return nil, fmt.Errorf("unknown --output %q, known ones: table, json", flags.output)
	case flags.service != "" && flags.deployment != "":
		return nil, errors.New("--service and --deployment exclude each other")
	case inCluster && given("address"):
		return nil, errors.New("--address asks one instance, --service and --deployment those of a cluster: give one of them")
	case !inCluster && (given("namespace") || given("kubeconfig")):
		return nil, errors.New("--namespace and --kubeconfig need a --service or a --deployment")
	}
	if !inCluster {
		address := strings.TrimSuffix(strings.TrimPrefix(flags.address, "http://"), "/")
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("--address %q: must be HOST:PORT, such as 127.0.0.1:8889", flags.address)
		}
		return func(context.Context) ([]status.Source, error) { return []status.Source{status.HTTP(address)}, nil }, nil
	}
	klog.SetLogger(logr.Discard()) // as in doctor
	cfg, err := restConfig(flags.kubeconfig, "")
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client of the API server: %w", err)
	}
	target := status.Target{Namespace: flags.namespace, Service: flags.service, Deployment: flags.deployment}
	return func(ctx context.Context) ([]status.Source, error) { return target.Sources(ctx, client) }, nil
}

// statusView asks and shows.
type statusView struct {
	sources   func(context.Context) ([]status.Source, error)
	json      bool
	out, errs io.Writer
}

// once shows the state as it is.
func (v *statusView) once(ctx context.Context) error {
	all, err := v.ask(ctx)
	if len(all) > 0 {
		if err := v.print(all); err != nil {
			return err
		}
	}
	if err != nil {
		return &runtimeError{err}
	}
	return nil
}

// ask returns the answers, and why others did not come.
func (v *statusView) ask(ctx context.Context) ([]status.Status, error) {
	sources, err := v.sources(ctx)
	if err != nil {
		return nil, err
	}
	answers, errs := make([]*status.Status, len(sources)), make([]error, len(sources))
	var asking sync.WaitGroup // all at once: one that does not answer takes long
	for i := range sources {
		asking.Go(func() { answers[i], errs[i] = status.Ask(ctx, sources[i]) })
	}
	asking.Wait()
	var all []status.Status
	for _, answer := range answers {
		if answer != nil {
			all = append(all, *answer)
		}
	}
	return all, errors.Join(errs...)
}

func (v *statusView) print(all []status.Status) error {
	var err error
	if v.json {
		encoder := json.NewEncoder(v.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(status.List{APIVersion: status.APIVersion, Kind: status.ListKind, Items: all})
	} else {
		err = status.WriteText(v.out, all)
	}
	if err != nil {
		return &runtimeError{fmt.Errorf("printing the status: %w", err)}
	}
	return nil
}

// watch shows the state again and again until ctx is done, which is a good end.
// An instance that goes away may come back; only one that never answered is an
// error.
func (v *statusView) watch(ctx context.Context, interval time.Duration) error {
	show, end := v.printNext, func() {}
	if !v.json && isTerminal(v.out) {
		terminal := newScreen(v.out)
		show, end = terminal.show, terminal.close
	}
	defer end()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for answered := false; ; {
		all, err := v.ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		answered = answered || len(all) > 0
		if !answered {
			return &runtimeError{err}
		}
		if err := show(all, err); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// printNext prints one state after the other, for a file or a pipe.
func (v *statusView) printNext(all []status.Status, failed error) error {
	if failed != nil {
		_, _ = fmt.Fprintf(v.errs, "prebind: %v\n", failed)
	}
	if len(all) == 0 {
		return nil
	}
	if err := v.print(all); err != nil || v.json {
		return err
	}
	if _, err := fmt.Fprintln(v.out, "\n---"); err != nil {
		return &runtimeError{fmt.Errorf("printing the status: %w", err)}
	}
	return nil
}

const statusHelp = `Ask running instances of prebind what they are about: the bind calls that run,
for how long, in which stage, and for which claims and whom they wait; what is
reserved; the last calls that failed, and that bound their pod, with the time
that each stage took.

They answer if server.debug is true in their configuration. Without a flag the
instance on this machine is asked, or what kubectl port-forward brings here;
--service and --deployment find all pods of an installation in a cluster and ask
them through the API server, which takes the right to get pods/proxy.

  prebind status
  prebind status --watch
  prebind status --namespace kube-system --service prebind
  kubectl -n kube-system exec deployment/prebind -- /prebind status
  prebind status -o json | jq '.items[].running[] | {pod, stage, claims}'

With -o json there is one object of kind StatusList; with --watch as well, one
after the other. docs/operations.md says what to look at when a pod is stuck.

Exit codes: 0 shown, 1 an instance could not be asked, 2 bad use.`
