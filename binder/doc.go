// Package binder runs the binding cycle: the ordered stages of one bind call.
// They are kube-scheduler's own, so that whoever knows one knows the other:
//
//	admit -> permit -> reserve -> preBind -> bind -> postBind
//	                on any failure: unreserve, newest first
//
// Plugins ([PermitPlugin], [ReservePlugin], [PreBindPlugin], [BindPlugin],
// [PostBindPlugin]) do the work of the stages; [Registry] maps their names to
// factories. Built in are VolumeBinding, which has the pod's claims bound
// (package volumes), DefaultBinder, which posts the Binding, and ProvisioningLimit,
// a queue before provisioners.
//
// The package owns three promises. A pod's UID has one cycle at a time. Nothing
// is written for a caller that has gone. And success is answered only when the
// API server has confirmed the Binding. All its state is in memory and about
// running calls: a restarted process needs none of it.
//
//	caches, err := volumes.NewCaches(client)
//	prebinder, err := volumes.New(volumes.Config{Client: client, Caches: caches})
//	b, err := binder.New(binder.Config{
//		Client: client, Caches: caches, Volumes: prebinder, Logger: logger,
//		Metrics: registry, Registry: binder.NewRegistry(),
//		Plugins: map[binder.Stage][]string{
//			binder.Reserve: {"VolumeBinding"},
//			binder.PreBind: {"VolumeBinding"},
//			binder.Bind:    {"DefaultBinder"},
//		},
//		BindTimeout: 10 * time.Minute,
//	})
//	caches.Start(ctx)
//	err = b.Bind(ctx, binder.Request{Namespace: "shop", Name: "db-0", UID: uid, Node: "node-7"})
//
// A Binder is safe for parallel use.
package binder
