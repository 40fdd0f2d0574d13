// Package monitoring tests what comes with prebind to look at it: the alerts and the
// dashboard of the chart, and the queries in docs/metrics.md. Each query is parsed by
// Prometheus' own parser and compared with the table of metrics in docs/metrics.md,
// which a test of cmd/prebind compares with what the program exports. Each alert is
// evaluated by Prometheus' own engine, over series that it is about and over some that
// it is not.
//
// It is a module of its own because Prometheus brings a hundred others, which what
// tests prebind itself must not depend on.
package monitoring
