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
	if len(args) == 0 {
		return errors.New("usage: bench all|idle|burst|one|plain|scale|render [flags]; -h after one of them lists its flags")
	}
	plan, err := parse(args[0], args[1:], stderr)
	if err != nil {
		return err
	}
	report := &report{}
	if plan.resume {
		if report, err = readReport(plan.dir); err != nil {
			return err
		}
	}
	if !plan.render {
		progress := stdout
		if plan.json {
			progress = stderr
		}
		if err := plan.measure(ctx, report, progress); err != nil {
			return err
		}
	}
	if err := plan.show(report, stdout); err != nil {
		return err
	}
	return report.err()
}
