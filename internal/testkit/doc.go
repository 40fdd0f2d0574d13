// Package testkit has what the unit tests of several packages share: builders
// of Kubernetes objects, and [API], a fake API server that is strict where
// races hide.
//
// A builder embeds the object that it builds, so it can be passed wherever a
// runtime.Object is expected. Its methods change the object in place:
//
//	pod := testkit.Pod("db-0").Uses("data-0")
//	api := testkit.NewAPI(t, pod, testkit.Claim("data-0"), testkit.Class("local"),
//		testkit.Volume("pv-1").OnHost("node-7"), testkit.Node("node-7"))
//
// Namespaced objects are in [Namespace]. An object called x has the UID
// "uid-x" unless it is told otherwise.
//
// API is meant for testing/synctest: all its goroutines are in the bubble of
// the test that made it, so synctest.Wait returns when every informer has seen
// every change.
package testkit
