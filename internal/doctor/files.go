package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prebind/prebind/config"
	"github.com/prebind/prebind/internal/registration"
)

// checkPrebindConfig reads prebind's configuration as `prebind serve` does.
// What must agree with the scheduler's file is found by checkSchedulerConfig.
func (e *exam) checkPrebindConfig(context.Context) outcome {
	if e.Config == "" {
		return skipped("no --config; defaults are taken for what it would say")
	}
	cfg, err := config.LoadFile(e.Config, config.Options{KnownPlugins: e.KnownPlugins})
	if err != nil {
		out := outcome{summary: e.Config + " is not valid"}
		for _, mistake := range config.Mistakes(err) {
			out.findings = append(out.findings, Finding{
				Severity: Fault, Object: e.Config, What: mistake,
				Why:  "prebind ends at its start with exit code 2, and no pod is bound.",
				Mend: "Correct the file; `prebind serve --help` prints one with every key and its default.",
			})
		}
		return out
	}
	e.prebind = cfg
	return outcome{summary: fmt.Sprintf("%s is valid: listens on %s, bindTimeout %s", e.Config, cfg.Server.Address, cfg.Volumes.BindTimeout.Duration)}
}

// checkSchedulerConfig looks for every known trap in the scheduler's file, and
// holds it against prebind's.
func (e *exam) checkSchedulerConfig(context.Context) outcome {
	if e.SchedulerConfig == "" {
		return skipped("no --scheduler-config")
	}
	data, err := os.ReadFile(e.SchedulerConfig)
	if err != nil { // it could be read a moment ago
		return skipped("%v", err)
	}
	options := registration.CheckOptions{ReadFile: os.ReadFile, Now: e.Now}
	if e.prebind != nil {
		options.BindTimeout = e.prebind.Volumes.BindTimeout.Duration
	}
	problems, found, err := registration.Check(data, options)
	if err != nil {
		return outcome{summary: e.SchedulerConfig + " is not valid", findings: []Finding{{
			Severity: Fault, Object: e.SchedulerConfig, What: err.Error(),
			Why:  "kube-scheduler ends at its start, and no pod is scheduled.",
			Mend: "Correct the file; `prebind scheduler-config` prints a good one.",
		}}}
	}
	e.registered = found
	out := outcome{summary: e.describeRegistration()}
	for _, p := range problems {
		if e.BeforeUninstall && p.Check == "not-registered" {
			continue // as it should be then
		}
		object := e.SchedulerConfig
		if p.Path != "" {
			object += " " + p.Path
		}
		out.findings = append(out.findings, Finding{Severity: Status(p.Severity), Object: object, What: p.What, Why: p.Why, Mend: p.Mend})
	}
	if e.prebind != nil && found.URL != "" {
		for _, finding := range compareFiles(e.prebind, found) {
			finding.Object = e.SchedulerConfig + " " + found.Path
			out.findings = append(out.findings, finding)
		}
	}
	return out
}

func (e *exam) describeRegistration() string {
	f := e.registered
	if f.URL == "" {
		return fmt.Sprintf("%s: mode %s, no bind entry, %s", e.SchedulerConfig, f.Mode, plural(len(f.SchedulerNames), "profile"))
	}
	return fmt.Sprintf("%s: mode %s, %s, calls %s for at most %s",
		e.SchedulerConfig, f.Mode, plural(len(f.SchedulerNames), "profile"), f.URL, f.HTTPTimeout.Round(time.Second))
}
