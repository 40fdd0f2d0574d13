// Package provisioner is a dynamic provisioner for tests and the demo. It runs
// in this process on the library that real ones are made of
// (sig-storage-lib-external-provisioner), under its own ServiceAccount with the
// rights that external-provisioner asks for. Its volumes are `local` ones on the
// node that the claim selects, or hostPath ones for classes that bind at once.
//
//	disks, err := provisioner.Start(ctx, cp, provisioner.Options{})
//	defer disks.Stop()
//	err = cp.Create(ctx, build.Class("slow").Provisioner(disks.Name()).Param(provisioner.Hold, "true").Obj())
//	... a pod that uses it ...
//	_, err = disks.WaitAttempt(ctx, "shop", "data-0", 1) // provisioning has begun
//	disks.Release("shop", "data-0")                      // and may end
//
// Trouble is made in two ways: by the parameters of the class, which work for
// every claim of it, and by Options.Hook, which sees each attempt and answers
// with a [FailureError] of its choice. A failure says what the library does next:
// remove the selected node (Reschedule), or keep it and try again.
//
// A Provisioner is safe for use by several goroutines.
package provisioner
