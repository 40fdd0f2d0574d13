// Package faults has the tests of what prebind does when the API server, the
// connection to it, the watches, the controllers or prebind itself fail: the
// real control plane, with a fault proxy between it and each prebind. The proxy
// also counts, so the tests say what was written and how often.
//
// The names of tests that begin with a case number, like S08, are situations
// from real clusters. Tests that disturb the whole control plane do not run in
// parallel; all others do, each with objects of its own names, which is what
// the rules of a shared proxy go by. Tests that disturb a whole replica (its
// watches, its process) start one for themselves.
//
// TestAlertsFire brings replicas into the state of each alert of the chart, records
// their metrics, and has test/monitoring/cmd/alerts tell which alerts fire.
package faults
