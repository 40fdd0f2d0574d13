// Package volumes gets the claims of one pod bound to volumes that one node
// can reach. It goes through six steps, each in its file:
//
//	facts.go         read what is known of the pod's claims (caches; live when in doubt)
//	plan.go          decide, purely, what each claim needs on the node
//	reservations.go  hold the chosen volumes, in memory, against other calls
//	write.go         write claimRef or selected-node, and nothing else (persist.go: until the outcome is known)
//	complete.go      on demand, write the claim's side too, which else the PV controller does
//	wait.go          wait, woken by the watch, until every claim is fully bound
//
// What it waits for at a moment is in [Prebinder.Waits] (waiting.go), and is told
// of on pods and claims by way of Config.Events (events_tell.go).
//
// For a scheduler that leaves volumes to prebind, [Prebinder.Filter] and
// [Prebinder.Score] judge thousands of nodes at once (filter.go, score.go,
// quick.go, index_nearby.go), by what is in the caches and reserved.
//
// For people, [Prebinder.Explain] tells what becomes of a pod's claims and why, from
// caches that [Caches.Load] filled once (explain.go, load.go).
//
// The meaning of every field and every rule of matching is kube-scheduler
// 1.37's: FindMatchingVolume and its siblings of k8s.io/component-helpers are
// imported and stay the judge.
//
// A claim is fully bound when its spec.volumeName is set, it has the
// annotation pv.kubernetes.io/bind-completed, and that volume's claimRef has
// the claim's UID.
//
// The caches are trimmed and may lag. So a cached object is never written
// back: a write is a patch of our fields, with the resourceVersion that was
// decided on, and a conflict means to look and decide again. And what the
// cache says against a pod is read live before it becomes an error.
//
//	caches, err := volumes.NewCaches(client)
//	p, err := volumes.New(volumes.Config{Client: client, Caches: caches})
//	caches.Start(ctx)
//
//	reservation, err := p.Reserve(ctx, pod, "node-7")
//	if err != nil {
//		return err // a fault that names claim and cause
//	}
//	defer p.Unreserve(reservation)
//	err = p.Bind(ctx, pod, reservation)
//
// Errors are faults (package fault). A [Prebinder] is safe for parallel use.
package volumes
