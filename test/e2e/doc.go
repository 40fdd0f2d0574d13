// Package e2e has the end-to-end tests: prebind as its own process, under its
// own ServiceAccount, on a real control plane.
//
// One control plane serves the whole package. Most tests call prebind
// themselves, for pods whose schedulerName nobody serves: then the test, not
// the scheduler, decides what is asked and when. The others leave the call to a
// real kube-scheduler, in mode bind or in mode stock.
//
// The names of tests that begin with a case number, like S15, are situations
// from real clusters.
package e2e
