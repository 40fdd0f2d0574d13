// Package monitoring is what the tests of the alerts and the dashboard stand on: a
// Prometheus that is given scrapes with the time of each, and evaluates rules and
// queries at these times. The parser, the storage and both engines are Prometheus' own.
//
//	replay, err := monitoring.NewReplay(alerts)
//	err = replay.Scrape(ctx, monitoring.Scrape{At: at, Target: target, Text: text})
//	fired, err := replay.Evaluate(ctx, at)
//
// Its tests parse each query of the alerts, of the dashboard and of the docs, and compare
// it with the table of metrics in docs/metrics.md, which a test of cmd/prebind compares
// with what the program exports. Each alert is evaluated over series that it is about and
// over some that it is not. With cmd/alerts the tests in test/faults see each alert fire
// over the metrics of a real replica. cmd/panels draws the dashboard.
//
// It is a module of its own because Prometheus brings a hundred others, which what tests
// prebind itself must not depend on.
package monitoring
