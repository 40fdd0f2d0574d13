package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prebind/prebind/test/build"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/internal/console"
	"github.com/prebind/prebind/test/programs"
	"github.com/prebind/prebind/test/provisioner"
)

// namespace is where examples/workloads go.
const namespace = metav1.NamespaceDefault

// demo is one run of the command.
type demo struct {
	out     *console.Console
	stdout  *os.File
	timeout time.Duration
	stay    bool // until Ctrl-C

	root    string
	cp      *controlplane.ControlPlane
	prebind *controlplane.Prebind
	undo    []func() // what Stop of the control plane does not end
}

func (d *demo) run(ctx context.Context) error {
	var err error
	if d.root, err = programs.Root(); err != nil {
		return err
	}
	if _, err := programs.Ensure(ctx, programs.Config{Root: d.root, Out: d.stdout}, programs.All()...); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	pods, err := watchPods(ctx, d.cp.Client(), namespace)
	if err != nil {
		return err
	}
	d.undo = append(d.undo, pods.stop)
	start := time.Now()
	d.out.Printf("\napplying examples/workloads")
	if err := d.cp.ApplyManifests(ctx, filepath.Join(d.root, "examples", "workloads")); err != nil {
		return err
	}
	if err := d.show(ctx, pods, start); err != nil {
		return err
	}
	if d.stay {
		d.stayUp(ctx)
	}
	return nil
}

// start brings up everything but the workloads.
func (d *demo) start(ctx context.Context) error {
	d.out.Printf("starting the control plane")
	d.out.Status("  ...")
	var err error
	d.cp, err = controlplane.Start(ctx, controlplane.Options{Out: d.stdout, Step: d.step, Embedded: true})
	if err != nil {
		return err
	}
	if err := d.timed(ctx, "nodes node-1 to node-3", d.createNodes); err != nil {
		return err
	}
	if err := d.timed(ctx, "dynamic provisioner", d.startProvisioner); err != nil {
		return err
	}
	if d.prebind, err = d.cp.StartPrebind(ctx, controlplane.PrebindOptions{LogLevel: "info"}); err != nil {
		return err
	}
	return d.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: d.prebind.URL()})
}

func (d *demo) step(name string, took time.Duration) {
	d.out.Printf("  %-24s %6.2fs", name, took.Seconds())
	d.out.Status("  ...")
}

// timed does one step of the demo's own.
func (d *demo) timed(ctx context.Context, name string, do func(context.Context) error) error {
	start := time.Now()
	if err := do(ctx); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	d.step(name, time.Since(start))
	return nil
}

func (d *demo) createNodes(ctx context.Context) error {
	for i := 1; i <= 3; i++ {
		node := build.Node(fmt.Sprintf("node-%d", i)).Zone(fmt.Sprintf("zone-%d", i))
		if err := d.cp.Create(ctx, node.Obj()); err != nil {
			return err
		}
	}
	stop, err := d.cp.RunKubelets(ctx)
	if err != nil {
		return err
	}
	d.undo = append(d.undo, stop)
	return nil
}

func (d *demo) startProvisioner(ctx context.Context) error {
	disks, err := provisioner.Start(ctx, d.cp, provisioner.Options{})
	if err != nil {
		return err
	}
	d.undo = append(d.undo, disks.Stop)
	return nil
}

// stayUp tells how to look around and waits for Ctrl-C.
func (d *demo) stayUp(ctx context.Context) {
	d.out.Printf("\nThe cluster stays up until Ctrl-C. To look around:")
	d.out.Printf("  export KUBECONFIG=%s", d.cp.Kubeconfig())
	d.out.Printf("  %s get pods,pvc,pv", filepath.Join(d.root, "build", "bin", string(programs.Kubectl)))
	d.out.Printf("  curl %s/metrics", d.prebind.OpsURL())
	d.out.Printf("  tail -f %s", d.prebind.Log())
	<-ctx.Done()
}

// stop ends what run started, in reverse order.
func (d *demo) stop() error {
	if d.cp == nil {
		return nil
	}
	d.out.Printf("stopping")
	for _, undo := range slices.Backward(d.undo) {
		undo()
	}
	return d.cp.Stop()
}
