// Package differential compares prebind's plans with what kube-scheduler's own
// VolumeBinding plugin finds for the same pod, node and cluster.
//
// States of a cluster are drawn at random (draw_test.go and its siblings), over
// small domains, so that names collide, sizes are equal in other words, and
// labels are almost right. Each state is put into both:
//
//   - prebind is the real Prebinder on its real caches, informers, transforms
//     and indices; only the watches are fed by the test (caches_test.go).
//   - upstream is the real plugin, PreFilter and Filter, over stores that are
//     filled directly (upstream_test.go).
//
// For each node both must come to the same answer: the pod fits or not; claim
// by claim the same way to a volume, and the very same volume wherever
// kube-scheduler's choice does not depend on the order of a Go map; and if a
// claim stands in the way, the same reason in kube-scheduler's words
// (compare_test.go says how reasons are compared, of which upstream gives only
// the first). Where prebind is meant to differ, the situation is listed in
// differences_test.go with both answers, and both are checked.
//
// What was seen is counted and logged with -v. A listed difference, a reason or
// a kind of plan that does not come up, or too few plans that fit, is an error.
//
//	go test ./differential                         2,000 states, seconds
//	go test ./differential -rapid.checks=100000    what make test-long does
//
// A failure prints the state that it was shrunk to and the seed; the same run
// is had again with -rapid.seed, and with the -rapid.failfile that is named.
package differential
