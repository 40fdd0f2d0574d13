// Package chaos runs prebind under everything at once and then checks, from
// the API alone, that nothing is wrong.
//
//	cp, err := controlplane.Start(ctx, chaos.ControlPlane())
//	report, err := chaos.Run(ctx, cp, chaos.Options{Seed: 7, Pods: 500, For: 3 * time.Minute, Out: os.Stdout})
//	report.Write(os.Stdout)
//
// Two replicas of prebind serve behind one address, each with a fault proxy of
// its own between it and the API server that disturbs 5 % of its requests, cuts
// its watches and makes them lag. Replicas, scheduler, controller manager and
// API server are killed (SIGKILL) and started again, pods are deleted while they are being
// bound, a third of them with their claims, and made anew, and the provisioner
// fails at random, and always on some nodes. What happens, and when, follows
// from the seed; how the programs interleave does not, so a seed runs the same
// trouble again, not the same history.
//
// # What can be bound
//
// A pod of the run is either one that can be bound, whatever happens, or one
// that never can; in the end there is nothing to argue about. prebind never undoes
// what it has written to the API, so a claim that got a volume on one node keeps its
// pod there. The workload is made such that this never is the end of a pod:
//
//   - Claims of scarce zone volumes belong to pods that ask for the zone.
//   - A pod has one claim of scarce local volumes at most, and whatever else it
//     claims can be had on every node that has local volumes.
//   - A pod with several claims that are provisioned on its node has no claims
//     of scarce volumes but such that every node reaches, and a node on which one of its
//     volumes was made can make the others.
//
// Of each kind of scarce volumes there are as many as claims, and two or three more:
// a volume held wrongly is a pod that waits in the end. Volumes whose claim was
// deleted are made anew, as a local volume provisioner does.
//
// Pods that never can be bound claim too much, a claim that does not exist, or a
// volume from a provisioner that always fails.
package chaos
