package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prebind/prebind/test/balancer"
	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/faultproxy"
	"github.com/prebind/prebind/test/internal/console"
	"github.com/prebind/prebind/test/provisioner"
)

// run is one chaos run.
type run struct {
	opts      Options
	cp        *controlplane.ControlPlane
	out       *console.Console
	namespace string
	start     time.Time
	undo      []func() // newest last

	workload *workload
	possible []string
	view     *view
	replicas []*replica
	programs []*program
	keeper   *keeper
	deleter  *deleter
	witness  *witness
	report   *Report
}

// Run runs prebind, scheduler, provisioner and workload on the control plane,
// which must be a fresh one (see ControlPlane), makes trouble, waits for calm and
// checks. The error tells that this could not be done; what the checks found
// is in the report. Of a run that fails either way the logs are kept; the
// report, or the error, names the folder.
func Run(ctx context.Context, cp *controlplane.ControlPlane, opts Options) (*Report, error) {
	opts.setDefaults()
	r := &run{opts: opts, cp: cp, out: console.New(opts.Out), start: time.Now(), report: &Report{Seed: opts.Seed}}
	err := r.run(ctx)
	r.out.Done()
	if err != nil || !r.report.OK() {
		folder, keepErr := keepLogs(cp, r.namespace)
		r.report.Logs = folder
		if err != nil {
			err = fmt.Errorf("chaos run with seed %d: %w (logs: %s)", opts.Seed, err, folder)
		}
		err = errors.Join(err, keepErr)
	}
	for i := range r.undo {
		r.undo[len(r.undo)-1-i]()
	}
	return r.report, err
}

func (r *run) run(ctx context.Context) error {
	r.out.Printf("chaos with seed %d: %d pods, %s of trouble", r.opts.Seed, r.opts.Pods, r.opts.For)
	if err := r.setUp(ctx); err != nil {
		return err
	}
	if err := r.live(ctx); err != nil {
		return err
	}
	r.count()
	return r.check(ctx)
}

// log prints one event with its time.
func (r *run) log(format string, args ...any) {
	r.out.Printf("%6.1fs  %s", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// later remembers what ends something.
func (r *run) later(undo func()) { r.undo = append(r.undo, undo) }

// setUp starts everything, but no trouble.
func (r *run) setUp(ctx context.Context) error {
	var err error
	if r.namespace, err = r.cp.CreateNamespace(ctx, "chaos"); err != nil {
		return err
	}
	r.workload = newWorkload(r.opts.Seed, r.opts.Pods, r.opts.For, r.namespace, provisioner.DefaultName)
	r.possible = r.workload.possible()
	r.report.Pods, r.report.Impossible = len(r.possible), len(r.workload.pods)-len(r.possible)
	r.report.Claims, r.report.Volumes = r.workload.countClaims(), len(r.workload.volumes)
	for _, class := range r.workload.classes {
		if err := r.cp.Create(ctx, class); err != nil {
			return err
		}
	}
	for _, node := range r.workload.nodes {
		if err := r.cp.Create(ctx, node); err != nil {
			return err
		}
	}
	for _, start := range []func(context.Context) error{r.startView, r.makeActors, r.startKubelets, r.startProvisioner, r.startPrebind} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	r.programs = programs(r.cp, r.replicas, &r.opts, r.log)
	return nil
}

// makeActors makes those who work on the workload. The volumes are created; nobody works yet.
func (r *run) makeActors(ctx context.Context) error {
	r.keeper = &keeper{client: r.cp.Client(), namespace: r.namespace, view: r.view, workload: r.workload, start: time.Now()}
	r.keeper.createVolumes(ctx)
	r.deleter = newDeleter(r.cp.Client(), r.namespace, r.view, r.workload, &r.opts)
	r.witness = newWitness(r.cp.Client(), r.namespace, r.view, r.deleter.hasDoomed)
	return context.Cause(ctx)
}

func (r *run) startView(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var err error
	if r.view, err = watchAll(ctx, r.cp.Client(), r.namespace); err != nil {
		cancel()
		return err
	}
	r.later(func() {
		cancel()
		r.view.stop()
	})
	return nil
}

func (r *run) startKubelets(ctx context.Context) error {
	stop, err := r.cp.RunKubelets(ctx)
	if err != nil {
		return err
	}
	r.later(stop)
	return nil
}

func (r *run) startProvisioner(ctx context.Context) error {
	disks, err := provisioner.Start(ctx, r.cp, provisioner.Options{
		Hook: flaky(r.opts.Seed), Change: everywhere(r.workload.zones),
	})
	if err != nil {
		return err
	}
	r.later(disks.Stop)
	return nil
}

// startPrebind starts two replicas behind one address, and the scheduler.
func (r *run) startPrebind(ctx context.Context) error {
	var backends []balancer.Backend
	for _, name := range []string{"prebind-a", "prebind-b"} {
		replica, err := startReplica(ctx, r.cp, name, &r.opts)
		if err != nil {
			return err
		}
		r.later(replica.proxy.Stop)
		r.replicas = append(r.replicas, replica)
		backends = append(backends, balancer.Backend{URL: replica.prebind.URL(), OpsURL: replica.prebind.OpsURL()})
	}
	one, err := balancer.Start(ctx, balancer.Options{}, backends...)
	if err != nil {
		return err
	}
	r.later(one.Stop)
	return r.cp.StartScheduler(ctx, controlplane.SchedulerOptions{
		Mode: controlplane.ModeBind, URL: one.URL(), PodInitialBackoffSeconds: 1, PodMaxBackoffSeconds: 5,
	})
}

// count puts what has happened into the report.
func (r *run) count() {
	report := r.report
	report.Kills, report.Ended = map[string]int{}, map[string]int{}
	for _, p := range r.programs {
		report.Kills[p.Name()] = int(p.killed.Load())
		if n := int(p.ended.Load()); n > 0 {
			report.Ended[p.Name()] = n
		}
	}
	report.DeletedPods, report.DeletedClaims = int(r.deleter.pods.Load()), int(r.deleter.claims.Load())
	report.Witnessed = r.witness.seen
}

// countFaults puts the trouble with requests into the report. What comes later
// is not disturbed.
func (r *run) countFaults() {
	report := r.report
	report.Faults = map[string]int{}
	for _, replica := range r.replicas {
		report.Requests += len(replica.proxy.Requests(faultproxy.Match{}))
		for fault, n := range replica.proxy.FaultCounts() {
			report.Faults[fault] += n
		}
		report.WatchesCut += int(replica.trouble.cuts.Load())
		report.WatchesHeld += int(replica.trouble.lags.Load())
	}
}
