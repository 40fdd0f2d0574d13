// Package load has the tests of prebind under load and at its end: thousands
// of calls at once, a limit on them, SIGTERM with calls that wait, and two
// replicas that are restarted one after the other. prebind is the real
// process, the API server and the scheduler are the real ones.
//
// Where the order of things is the point, the tests play kube-scheduler and
// call prebind themselves, for pods whose schedulerName nobody serves; the
// rolling restart has a real scheduler.
//
// Times and memory are printed ("measured: ..."), and never decide whether a
// test passes, except that memory has a bound far above what is expected.
package load
