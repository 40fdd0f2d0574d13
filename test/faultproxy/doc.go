// Package faultproxy stands between a client and the API server and disturbs
// what it is told to: it refuses, delays, holds, cuts, or lets a write happen
// and loses the answer. It counts every request, so that a test can say what a
// client wrote and what it asked for.
//
//	proxy, err := faultproxy.Start(faultproxy.Options{Target: cp.AdminConfig()})
//	defer proxy.Stop()
//	prebind, err := cp.StartPrebind(ctx, controlplane.PrebindOptions{APIServer: proxy.URL()})
//
//	// The first patch of a volume is committed, and its answer is lost.
//	lost := proxy.Disturb(faultproxy.Rule{
//		Match: faultproxy.Match{Verb: "patch", Resource: "persistentvolumes"},
//		Times: 1,
//		Do:    faultproxy.Lose(),
//	})
//	...
//	writes := proxy.Requests(faultproxy.Match{Verb: faultproxy.Writes, Name: "disk-1"})
//
// A request is named as RBAC names it: a verb (get, list, watch, create,
// update, patch, delete), a resource with its subresource (pods/binding), a
// namespace and a name. A watch that begins with the objects there are (a
// streaming list) is a watch.
//
// The client's credentials are passed on. The way from the client to the proxy
// is TLS with a certificate that the client must not check: client-go sends no
// credentials in the clear.
package faultproxy
