// Command bench measures prebind against the stock scheduler on one embedded
// control plane, whose programs run as in production: the controller manager at
// its default request rate, prebind as its own process under its ServiceAccount.
//
//	bench latency [-n 100] [-pace 1.5s] [-o text|json]
//
// latency measures idle latency: from just before the call that creates a pod
// until a watch shows the pod's node, one pod at a time, one static claim each.
// The pace is the same for both, and slow enough for the controller manager's
// request rate not to matter. Each claim is created 0.3 s before its pod, which
// is not measured; a pace below 1.4 s would be faster than the stock scheduler.
package main
