// Package server is prebind's HTTP face: the extender verbs that
// kube-scheduler calls, on one listener, with TLS if [Config.TLS] says so, and
// health and metrics on another, always plain.
//
// It owns routes, limits, decoding, encoding, health and an orderly stop. What
// a bind call means is the [Binder]'s business, and which nodes suit a pod that of
// [Nodes], which is not asked about pods without claims.
//
//	POST /v1/bind         verbs   ExtenderBindingArgs in, ExtenderBindingResult out
//	POST /v1/filter       verbs   ExtenderArgs in, ExtenderFilterResult out
//	POST /v1/prioritize   verbs   ExtenderArgs in, HostPriorityList out
//	GET  /livez           ops     200 while the process serves
//	GET  /readyz          ops     200 once every check passes, 503 before and while stopping
//	GET  /metrics         ops     Prometheus
//	GET  /debug/prebind   ops     the state of the process, JSON, if [Config.Debug] is set
//
// Statuses of the verbs listener:
//
//	200  every outcome of a verb, good or bad. kube-scheduler throws away the
//	     body of any other status, so a failure, be it of the cluster, of the
//	     request or of prebind, is a result whose Error is set. Error == ""
//	     means that the pod is bound, or that the nodes were filtered.
//	500  prioritize failed: its result has no place for an error
//	404  no such path
//	405  wrong method; Allow tells the right one
//	403  what is no POST, of a caller whose client certificate is not accepted
//	400  what is no bind call, sent as plain HTTP to the TLS port
//
// kube-scheduler takes 200 with "{}" or "null" for a success that it never
// checks, so nothing but a complete result is ever sent with 200.
//
//	srv, err := server.New(server.Config{
//		Address: "127.0.0.1:8888", OpsAddress: "127.0.0.1:8889",
//		Binder: binder, Nodes: prebinder, Drain: drain,
//		Logger: logger, Registry: registry, Checks: checks,
//	})
//	err = srv.Run(ctx) // serves until ctx is done, then drains
//
// Handlers run in parallel, one goroutine a request.
package server
