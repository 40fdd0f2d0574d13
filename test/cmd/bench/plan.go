package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prebind/prebind/test/controlplane"
	"github.com/prebind/prebind/test/internal/console"
)

// plan is what a command line asks for.
type plan struct {
	command   string
	scenarios []scenario
	scale     *scaleOptions
	seed      uint64
	dir       string // for the report and the plots; empty: nowhere
	page      string // that gets tables and plots; empty: one in dir
	json      bool   // the report to standard output as JSON
	resume    bool   // what dir holds is kept but for what is measured again
	render    bool   // nothing is measured
}

// parse reads a command and its flags.
func parse(command string, args []string, stderr io.Writer) (*plan, error) {
	p := &plan{}
	flags := flag.NewFlagSet("bench "+command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&p.seed, "seed", 1, "draws the sizes of volumes and claims")
	flags.StringVar(&p.dir, "out", "", "folder for bench.json, plots and report.md; empty: none")
	flags.StringVar(&p.page, "page", "", "page whose part between the marks gets tables and plots, in place of report.md")
	flags.BoolVar(&p.json, "json", false, "print the report as JSON; the progress goes to standard error")
	var finish func() error
	switch command {
	case "all":
		finish = p.allFlags(flags)
	case "idle", "burst", "one", "plain":
		finish = p.scenarioFlags(flags, command)
	case "scale":
		finish = p.scaleFlags(flags)
	case "render":
		p.render, p.resume = true, true
		finish = func() error { return nil }
	default:
		return nil, fmt.Errorf("unknown command %q: want all, idle, burst, one, plain, scale or render", command)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case p.dir == "" && (p.resume || p.page != ""):
		return nil, errors.New("-out is required with render, -keep and -page")
	}
	p.command = describe(command, flags)
	return p, finish()
}

// describe is the command line but for where the report goes.
func describe(command string, flags *flag.FlagSet) string {
	text := "bench " + command
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "out" && f.Name != "page" {
			text += fmt.Sprintf(" -%s=%s", f.Name, f.Value)
		}
	})
	return text
}

// allFlags are those of `bench all`.
func (p *plan) allFlags(flags *flag.FlagSet) func() error {
	quick := flags.Bool("quick", false, "fewer scenarios, variants and pods: less than six minutes")
	only := flags.String("only", "", "names of scenarios, and scale, to measure alone: idle,burst-20,scale")
	flags.BoolVar(&p.resume, "keep", false, "keep what the report in -out has, but for what is measured again")
	return func() error {
		options := scaleDefaults(*quick)
		p.scenarios, p.scale = scenarios(*quick), &options
		if *only == "" {
			return nil
		}
		names := strings.Split(*only, ",")
		known := []string{"scale"}
		for _, s := range p.scenarios {
			known = append(known, s.Name)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				return fmt.Errorf("-only %s: want some of %s", name, strings.Join(known, ", "))
			}
		}
		p.scenarios = slices.DeleteFunc(p.scenarios, func(s scenario) bool { return !slices.Contains(names, s.Name) })
		if !slices.Contains(names, "scale") {
			p.scale = nil
		}
		return nil
	}
}

// scenarioFlags are those of a scenario of one's own.
func (p *plan) scenarioFlags(flags *flag.FlagSet, command string) func() error {
	s := map[string]scenario{
		"idle":  {Kind: onebyone, World: world{20, 10}, Pods: 100, Pace: 500 * time.Millisecond},
		"burst": {Kind: burst, World: world{50, 10}, Pods: 300},
		"one":   {Kind: onebyone, World: world{1000, 10}, Pods: 8, Pace: 500 * time.Millisecond},
		"plain": {Kind: plain, World: world{50, 0}, Pods: 1000},
	}[command]
	s.Name = "custom" // no goal is for it
	flags.IntVar(&s.World.Nodes, "nodes", s.World.Nodes, "nodes")
	flags.IntVar(&s.World.PerNode, "volumes", s.World.PerNode, "local volumes on each node")
	flags.IntVar(&s.Pods, "pods", s.Pods, "pods for each variant")
	flags.DurationVar(&s.Pace, "pace", s.Pace, "least time between two pods that come one by one")
	flags.IntVar(&s.ControllerManagerQPS, "cm-qps", 0, "kube-controller-manager's --kube-api-qps; 0: its default, 20")
	flags.IntVar(&s.SchedulerQPS, "scheduler-qps", 0, "kube-scheduler's clientConnection.qps; 0: its default, 50")
	flags.BoolVar(&s.SomeNodes, "some-nodes", false, "in mode full, too, the scheduler looks at some of a large cluster's nodes only")
	flags.BoolVar(&s.ProbeFilter, "probe-filter", false, "time calls of /v1/filter for all nodes, too; with burst, and variants of mode full")
	chosen := flags.String("variants", "stock,bind,full", "what to measure: stock, MODE, or MODE/COMPLETION as in full/Direct")
	return func() error {
		var err error
		if s.Variants, err = parseVariants(*chosen); err != nil {
			return err
		}
		p.scenarios = []scenario{s}
		notFull := slices.ContainsFunc(s.Variants, func(v variant) bool { return v.Mode != controlplane.ModeFull })
		switch {
		case s.ProbeFilter && (s.Kind != burst || notFull || s.Pods >= s.World.Nodes):
			return errors.New("-probe-filter is for burst, with variants of mode full, and fewer pods than nodes")
		case s.World.Nodes < 1 || s.Pods < 1 || s.World.PerNode < 0 || s.Pace < 0 || s.ControllerManagerQPS < 0 || s.SchedulerQPS < 0:
			return errors.New("-nodes and -pods must be positive, the others not negative")
		case s.Kind != plain && s.Pods > s.World.volumes():
			return fmt.Errorf("%d pods need more than the %d volumes of %s", s.Pods, s.World.volumes(), s.World)
		}
		return nil
	}
}

// scaleFlags are those of `bench scale`.
func (p *plan) scaleFlags(flags *flag.FlagSet) func() error {
	options := scaleDefaults(false)
	quick := flags.Bool("quick", false, "a tenth of everything")
	flags.IntVar(&options.World.Nodes, "nodes", options.World.Nodes, "nodes")
	flags.IntVar(&options.World.PerNode, "volumes", options.World.PerNode, "local volumes on each node")
	flags.IntVar(&options.Claims, "claims", options.Claims, "claims")
	flags.IntVar(&options.Starts, "starts", options.Starts, "how often prebind is started")
	flags.DurationVar(&options.SecondLook, "second-look", options.SecondLook, "how long after it is ready its memory is looked at again")
	return func() error {
		if *quick {
			options.World.Nodes, options.Claims = options.World.Nodes/10, options.Claims/10
		}
		p.scale = &options
		if options.World.volumes() < 1 || options.Claims < 0 || options.Starts < 1 {
			return errors.New("-nodes, -volumes and -starts must be positive, -claims not negative")
		}
		return nil
	}
}

// measure fills the report. It is written after each scenario, so that a run
// that is ended has something to show.
func (p *plan) measure(ctx context.Context, r *report, progress io.Writer) (err error) {
	out := console.New(progress)
	defer out.Done()
	began, done := time.Now(), func() {}
	if p.resume && !r.Started.IsZero() {
		r.Again = append(r.Again, repeat{p.names(), commit(ctx), began})
	} else {
		r.Command, r.Seed, r.Started, r.Commit = p.command, p.seed, began, commit(ctx)
		done = func() { r.Minutes = time.Since(began).Minutes() }
	}
	l, err := newLab(ctx, progress, out, p.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.cp.Stop()) }()
	version, err := l.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	r.Machine, r.Processors = machine(version.GitVersion), runtime.NumCPU()
	for i, s := range p.scenarios {
		out.Printf("%d of %d, after %s: %s: %s", i+1, len(p.scenarios), time.Since(r.Started).Round(time.Second), s.Name, s.title())
		measured, err := l.measureScenario(ctx, s)
		if err != nil {
			return err
		}
		r.put(measured)
		done()
		if err := p.save(r); err != nil {
			return err
		}
	}
	if p.scale == nil {
		return nil
	}
	if r.Scale, err = l.measureScale(ctx, *p.scale); err != nil {
		return fmt.Errorf("measuring memory and start: %w", err)
	}
	done()
	return p.save(r)
}

// names are those of what is measured.
func (p *plan) names() string {
	var names []string
	for _, s := range p.scenarios {
		names = append(names, s.Name)
	}
	if p.scale != nil {
		names = append(names, "scale")
	}
	return strings.Join(names, ", ")
}

func (l *lab) measureScenario(ctx context.Context, s scenario) (result, error) {
	measured := result{scenario: s}
	if err := l.cp.ControllerManager().Kill(); err != nil {
		return measured, err
	}
	if err := l.grow(ctx, s.World); err != nil {
		return measured, err
	}
	for _, v := range s.Variants {
		m, err := l.measure(ctx, s, v)
		if err != nil {
			return measured, fmt.Errorf("measuring %s of %s: %w", v, s.Name, err)
		}
		measured.Series = append(measured.Series, m)
	}
	return measured, nil
}

// put adds a scenario, in place of an earlier one of that name.
func (r *report) put(measured result) {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == measured.Name {
			r.Scenarios[i] = measured
			return
		}
	}
	r.Scenarios = append(r.Scenarios, measured)
}

func (p *plan) save(r *report) error {
	if p.dir == "" {
		return nil
	}
	return r.write(p.dir)
}

// show prints the report, and publishes it if there is a folder for it.
func (p *plan) show(r *report, stdout io.Writer) error {
	if p.json {
		if err := r.encode(stdout); err != nil {
			return err
		}
	} else {
		r.writeText(stdout)
	}
	if p.dir == "" {
		return nil
	}
	page, err := r.publish(p.dir, p.page)
	if err != nil {
		return err
	}
	if !p.json {
		_, _ = fmt.Fprintf(stdout, "\ntables and plots: %s\n", page)
	}
	return nil
}

// commit is what git calls the working tree; empty without git.
func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
