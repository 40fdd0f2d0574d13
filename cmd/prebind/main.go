package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prebind/prebind/config"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(runAs(context.Background(), programName(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program under its own name.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runAs(ctx, ownName, args, stdout, stderr)
}

// runAs is the whole program, named so in what it says of itself. It stops in order when ctx is done or at the first
// SIGTERM or SIGINT; a second signal kills the process at once.
func runAs(ctx context.Context, name string, args []string, stdout, stderr io.Writer) int {
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer restore()
	context.AfterFunc(ctx, restore)

	root := newRootCommand(name)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if failure, ok := errors.AsType[*runtimeError](err); ok {
		_, _ = fmt.Fprintf(stderr, "prebind: %v\n", failure)
		return exitFailure
	}
	if bad, ok := errors.AsType[*configError](err); ok {
		for _, mistake := range config.Mistakes(bad.err) {
			_, _ = fmt.Fprintf(stderr, "%s: %s\n", bad.file, mistake)
		}
		return exitUsage
	}
	if _, ok := errors.AsType[*faultsFoundError](err); ok {
		return exitFailure
	}
	_, _ = fmt.Fprintf(stderr, "prebind: %v\nSee '%s --help'.\n", err, command.CommandPath())
	return exitUsage
}

// runtimeError is a failure that is not the user's. Any other error that a
// command returns is bad use.
type runtimeError struct{ error }

func (e *runtimeError) Unwrap() error { return e.error }

// configError is all that is wrong with one file.
type configError struct {
	file string
	err  error
}

func (e *configError) Error() string { return e.file + ": " + e.err.Error() }

func (e *configError) Unwrap() error { return e.err }

func newRootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:   ownName,
		Short: "A kube-scheduler extender that binds volumes and then the pod",
		Long: `prebind takes over kube-scheduler's bind step: it works out which volumes a pod
needs on its node, binds them, waits until every claim is bound, and then posts
the pod's Binding.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true,
		SilenceUsage:  true,
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
	}
	root.AddCommand(newServeCommand(), newSchedulerConfigCommand(), newDoctorCommand(), newExplainCommand(name), newStatusCommand(), newVersionCommand())
	return root
}
