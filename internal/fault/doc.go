// Package fault holds the one error type that prebind shows to people, and
// the list of its codes.
//
// kube-scheduler puts the text of a failed bind call into the pod's
// PodScheduled condition and into its FailedScheduling event, cut at 1,024
// characters. A fault therefore reads code first, then the object, then the
// cause:
//
//	ProvisioningFailed: claim shop/data-0 (class fast): node-7: quota exceeded
//
// Errors travel up wrapped in the usual way, with the stage and plugin in
// front; [Text] turns such a chain round for the reader in the event:
//
//	err := fmt.Errorf("running PreBind plugin %q: %w", "VolumeBinding",
//		fault.New(fault.ProvisioningFailed, "claim shop/data-0: quota exceeded"))
//	err.Error()     // running PreBind plugin "VolumeBinding": ProvisioningFailed: claim ...
//	fault.Text(err) // ProvisioningFailed: claim ... [running PreBind plugin "VolumeBinding"]
//
// Everything here is safe for parallel use.
package fault
