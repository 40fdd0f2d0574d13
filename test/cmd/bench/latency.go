package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/internal/console"
)

// latencyOptions are the flags of `bench latency`.
type latencyOptions struct {
	pods, warmUp, nodes int
	pace                time.Duration
	completion          string
}

// bench is one run of the command.
type bench struct {
	opts latencyOptions
	out  *console.Console
	cp   *controlplane.ControlPlane
}

// latency measures the stock scheduler, then prebind, on one control plane.
func latency(ctx context.Context, opts latencyOptions, progress io.Writer) (_ report, err error) {
	b := &bench{opts: opts, out: console.New(progress)}
	defer b.out.Done()
	b.out.Printf("starting the control plane")
	step := func(name string, took time.Duration) { b.out.Printf("  %-24s %6.2fs", name, took.Seconds()) }
	b.cp, err = controlplane.Start(ctx, controlplane.Options{Out: progress, Step: step, Embedded: true, NoAudit: true})
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, b.cp.Stop()) }()
	for i := range opts.nodes {
		if err := b.cp.Create(ctx, build.Node(nodeName(i)).Obj()); err != nil {
			return report{}, err
		}
	}
	if err := b.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeNone}); err != nil {
		return report{}, err
	}
	stock, err := b.measure(ctx, "stock")
	if err != nil {
		return report{}, fmt.Errorf("measuring the stock scheduler: %w", err)
	}
	prebind, err := b.cp.StartPrebind(ctx, controlplane.PrebindOptions{
		LogLevel: "info", Config: "volumes: {staticCompletion: " + b.opts.completion + "}",
	})
	if err != nil {
		return report{}, err
	}
	err = b.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: prebind.URL()})
	if err != nil {
		return report{}, err
	}
	ours, err := b.measure(ctx, "prebind")
	if err != nil {
		return report{}, fmt.Errorf("measuring prebind: %w; the last lines of its log:\n%s", err, prebind.Tail(5))
	}
	version, err := b.cp.Client().Discovery().ServerVersion()
	if err != nil {
		return report{}, err
	}
	r := newReport(machine(version.GitVersion), b.setup(), stock, ours)
	lines, err := prebind.Logs()
	r.Stages = medianStages(lines)
	return r, err
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

func machine(kubernetes string) string {
	return fmt.Sprintf("%d cores, %s/%s, %s, Kubernetes %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), kubernetes)
}

func (b *bench) setup() string {
	return fmt.Sprintf("%d pods one at a time, at most one every %s, one static claim each, %d local volumes on %d nodes; controller manager at its default %s requests/s",
		b.opts.pods, b.opts.pace, b.opts.pods+b.opts.warmUp, b.opts.nodes, controllerManagerRate)
}

// controllerManagerRate is kube-controller-manager's --kube-api-qps, which the
// bench does not set.
const controllerManagerRate = "20"

// measure runs one series and cleans up behind it.
func (b *bench) measure(ctx context.Context, name string) ([]time.Duration, error) {
	s, err := newSeries(ctx, b, name)
	if err != nil {
		return nil, err
	}
	defer s.watch.stop()
	var samples []time.Duration
	for i := range b.opts.warmUp + b.opts.pods {
		took, err := s.one(ctx, i)
		if err != nil {
			return nil, err
		}
		if i >= b.opts.warmUp {
			samples = append(samples, took)
			b.out.Status("%-8s %d of %d pods, the last in %d ms", name, len(samples), b.opts.pods, took.Milliseconds())
		}
	}
	b.out.Printf("%-8s %d pods measured, median %.1f ms", name, len(samples), percentile(samples, 50))
	return samples, s.cleanUp(ctx)
}

// pause waits until a moment.
func pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
