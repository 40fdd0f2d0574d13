// Package status has the state of a running prebind as GET /debug/prebind
// answers it, reads it from there, and prints it for people.
//
// The shape is versioned by apiVersion, as everywhere in Kubernetes: keys are
// added to a version, never changed or taken away. There are no secrets in it,
// but the names of pods, claims, volumes and nodes. Its size is bounded: of each
// list there are the first hundreds, and beside it how many there are in all.
//
//	one, err := status.Ask(ctx, status.HTTP("127.0.0.1:8889"))
//	err = status.WriteText(os.Stdout, []status.Status{*one})
//
// Everything here is safe for parallel use.
package status
