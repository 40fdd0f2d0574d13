// Package instrument has what the metrics of several packages have in common. Each
// package owns its metrics, and registers them where it is told to; docs/metrics.md
// lists them all.
//
//	waits := prometheus.NewHistogramVec(instrument.Histogram(
//		"prebind_volume_wait_seconds", "Time that ...", instrument.Waits(),
//	), []string{"class"})
//	writes, err := instrument.NewWrites(registry, instrument.Volumes)
//	err = instrument.Register(registry, waits)
//
// All of it is safe for parallel use.
package instrument
