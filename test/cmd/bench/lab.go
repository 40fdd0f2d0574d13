package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/internal/console"
)

// lab is one control plane on which series are measured one after the other.
// etcd, the API server and the world stay; the controller manager, prebind and
// the scheduler start afresh for each series, so that each has its own metrics,
// and a request rate that nothing has used up.
type lab struct {
	out     *console.Console
	cp      *controlplane.ControlPlane
	client  kubernetes.Interface // protobuf, without a limit on its rate
	seed    uint64
	world   world // what there is
	prebind *controlplane.Prebind
	took    map[string]time.Duration // how long each program took to start, the last time
}

func newLab(ctx context.Context, progress io.Writer, out *console.Console, seed uint64) (*lab, error) {
	out.Printf("starting the control plane")
	l := &lab{out: out, seed: seed, took: map[string]time.Duration{}}
	step := func(name string, took time.Duration) {
		out.Status("  %-24s %6.2fs", name, took.Seconds())
		l.took[name] = took
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{Out: progress, Step: step, Embedded: true, NoAudit: true})
	if err != nil {
		return nil, err
	}
	l.cp = cp
	config := cp.AdminConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	if l.client, err = kubernetes.NewForConfig(config); err == nil {
		err = l.createClass(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return l, nil
}

// start starts the controller manager, prebind and the scheduler.
func (l *lab) start(ctx context.Context, s scenario, v variant) error {
	var args []string
	if qps := s.ControllerManagerQPS; qps != 0 {
		args = []string{fmt.Sprintf("--kube-api-qps=%d", qps), fmt.Sprintf("--kube-api-burst=%d", 2*qps)}
	}
	if err := l.cp.StartControllerManager(ctx, args...); err != nil {
		return err
	}
	options := controlplane.SchedulerOptions{Mode: v.Mode, ClientQPS: int64(s.SchedulerQPS), AllNodes: !s.SomeNodes}
	if v.Mode != controlplane.ModeNone {
		if err := l.startPrebind(ctx, v); err != nil {
			return err
		}
		options.URL = l.prebind.URL()
	}
	return l.cp.StartScheduler(ctx, options)
}

func (l *lab) startPrebind(ctx context.Context, v variant) error {
	var err error
	l.prebind, err = l.cp.StartPrebind(ctx, controlplane.PrebindOptions{
		LogLevel: "info", Config: "volumes: {staticCompletion: " + v.Completion + "}",
	})
	return err
}

// stop ends what start started. The scheduler and the controller manager have
// nothing to lose.
func (l *lab) stop(ctx context.Context) error {
	if scheduler := l.cp.Scheduler(); scheduler != nil {
		if err := scheduler.Kill(); err != nil {
			return err
		}
	}
	if l.prebind != nil {
		if err := l.prebind.Stop(ctx); err != nil {
			return err
		}
		if err := os.Remove(l.prebind.Log()); err != nil {
			return err
		}
		l.prebind = nil
	}
	return l.cp.ControllerManager().Kill()
}
