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
)

func main() {
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the command without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "latency" {
		return errors.New("usage: bench latency [-n 100] [-pace 1.5s] [-o text|json]")
	}
	opts := latencyOptions{}
	flags := flag.NewFlagSet("bench latency", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.pods, "n", 100, "pods to measure with each scheduler")
	flags.IntVar(&opts.warmUp, "warmup", 3, "pods before them that are not measured")
	flags.IntVar(&opts.nodes, "nodes", 4, "nodes, over which the local volumes are spread")
	flags.DurationVar(&opts.pace, "pace", 1500*time.Millisecond, "least time between the creation of two pods")
	flags.StringVar(&opts.completion, "completion", "Controller", "volumes.staticCompletion: Controller or Direct")
	output := flags.String("o", "text", "text or json; with json the progress goes to standard error")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.pods < 1 || opts.warmUp < 0 || opts.nodes < 1 || opts.pace < 0:
		return errors.New("-n and -nodes must be positive, -warmup and -pace not negative")
	case *output != "text" && *output != "json":
		return fmt.Errorf("-o %s: want text or json", *output)
	}
	progress := stdout
	if *output == "json" {
		progress = stderr
	}
	report, err := latency(ctx, opts, progress)
	if err != nil {
		return err
	}
	if *output == "json" {
		return report.writeJSON(stdout)
	}
	report.writeText(stdout)
	return nil
}
