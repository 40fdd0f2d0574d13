package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/prebind/prebind/test/internal/console"
)

func main() {
	klog.SetLogger(logr.Discard()) // libraries must not write into the live table
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "demo: stopped before all pods were bound")
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the command without its process. It returns nil if all pods were bound.
func run(ctx context.Context, args []string, stdout *os.File) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the pods may take to be bound")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := withParent(ctx)
	defer cancel()
	out := console.New(stdout)
	once := os.Getenv("ONCE")
	d := &demo{out: out, stdout: stdout, timeout: *timeout, stay: out.Terminal() && (once == "" || once == "0")}
	err := d.run(ctx)
	out.Done()
	return errors.Join(err, d.stop())
}

// withParent ends the context when the parent process ends: killing `make` or
// `go run` does not reach us, and a demo that nobody watches must not stay.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
