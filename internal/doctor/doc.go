// Package doctor looks at an installation of prebind and explains what is wrong
// with it: the scheduler's configuration file, prebind's own, the rights in the
// cluster, the endpoint that the scheduler calls, the versions, the storage
// classes, and whether the scheduler really calls prebind.
//
//	report, err := doctor.Run(ctx, doctor.Options{SchedulerConfig: "config.yaml"})
//	if err != nil {
//		return err // a file that cannot be read
//	}
//	err = report.WriteText(os.Stdout, false)
//	ok := report.Faults == 0
//
// It changes nothing, neither in the cluster nor in prebind, whose metrics stay
// as they were. A check whose means are not there (no cluster, no right to look)
// is skipped and says so; it is no fault. Where a check has facts to gather and
// a verdict to give, the verdict is a pure function of the facts.
//
// Run may be called in parallel.
package doctor
