package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/test/chaos"
	"github.com/prebind/prebind/test/controlplane"
)

// errWrong says that a check failed.
var errWrong = errors.New("something is wrong")

func main() {
	klog.SetLogger(logr.Discard()) // client-go complains whenever the API server is away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run is the command without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts := chaos.Options{Out: stdout}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&opts.Seed, "seed", uint64(time.Now().UnixNano()), "decides what happens; by default the time does")
	flags.IntVar(&opts.Pods, "pods", 500, "pods that can be bound")
	flags.DurationVar(&opts.For, "duration", 3*time.Minute, "how long there is trouble")
	flags.DurationVar(&opts.Settle, "settle", 5*time.Minute, "how long the pods may take after it")
	flags.BoolVar(&opts.Direct, "direct", false, "volumes.staticCompletion is Direct")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.Pods < 1 || opts.For <= 0 || opts.Settle <= 0:
		return errors.New("-pods, -duration and -settle must be positive")
	}
	report, err := onControlPlane(ctx, opts)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(stdout)
	report.Write(stdout)
	if !report.OK() {
		return fmt.Errorf("%w with seed %d; logs and objects: %s", errWrong, report.Seed, report.Logs)
	}
	return nil
}

// onControlPlane runs the chaos on a control plane of its own.
func onControlPlane(ctx context.Context, opts chaos.Options) (report *chaos.Report, err error) {
	with := chaos.ControlPlane()
	with.Out = opts.Out
	cp, err := controlplane.Start(ctx, with)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	return chaos.Run(ctx, cp, opts)
}
