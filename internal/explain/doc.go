// Package explain tells people why a pod's claims are as they are: which volume,
// why, whose fault, what next. It needs a client with read rights and nothing else:
// prebind need not be installed. What happens on a node is decided by
// [volumes.Prebinder.Explain], which is the code that the service runs.
//
//	report, err := explain.Run(ctx, explain.Options{Client: client, Namespace: "shop", Pod: "db-0"})
//	err = report.WriteText(os.Stdout) // or WriteJSON, WriteYAML
//
// Run reads (run.go, events.go); all else is pure. It goes from what was read to a
// [Report] (compose.go: claim.go, nodes.go, reasons.go, then trouble.go and broken.go
// for what is wrong and what to do about it, verdict.go for the first line) and from
// there alone to text (text.go, page.go). Nothing is changed in the cluster.
package explain
