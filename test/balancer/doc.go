// Package balancer is one address in front of several prebinds, as a Service
// is in a cluster. It asks each replica's /readyz and gives a request to the
// ready ones in turn.
//
//	front, err := balancer.Start(ctx, balancer.Options{},
//		balancer.Backend{URL: a.URL(), OpsURL: a.OpsURL()},
//		balancer.Backend{URL: b.URL(), OpsURL: b.OpsURL()})
//	defer front.Stop()
//	err = cp.StartScheduler(ctx, controlplane.SchedulerOptions{Mode: controlplane.ModeBind, URL: front.URL()})
//
// A request is sent once. The next replica gets it only if no connection to the
// first one came about, so that nothing can have been sent; whatever breaks
// later is the caller's to see, as 502. Each request has a connection of its
// own to the replica, and an answer is passed on whole or not at all.
//
// [Options].Answered sees every exchange as the caller saw it, those among them
// that no log of prebind tells of because prebind was gone.
//
// A Balancer is safe for use by several goroutines.
package balancer
