// Command programs builds everything that the embedded control plane, the demo
// and the tests run into build/bin, showing its progress.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/prebind/prebind/test/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

// run builds the programs named by args, or all of them.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	wanted := programs.All()
	if len(args) > 0 {
		wanted = nil
		for _, name := range args {
			wanted = append(wanted, programs.Program(name))
		}
	}
	set, err := programs.Ensure(ctx, programs.Config{Out: stdout}, wanted...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "programs are in", set.Dir())
	return err
}
