// Command bench measures prebind against the stock scheduler on one embedded
// control plane, whose programs run as in production: the controller manager at
// its default request rate, prebind as its own process under its ServiceAccount.
//
//	bench latency [-n 100] [-pace 1s] [-o text|json]
//
// latency measures idle latency: from just before the call that creates a pod
// until a watch shows the pod's node, one pod at a time, one static claim each.
// The least pause between two pods is the same for both, and long enough for the
// controller manager's request rate not to matter. Each claim is created 0.3 s
// before its pod, which is not measured; so at the default pace the stock
// scheduler, which needs a second, gets a pod every 1.3 s, and prebind every 1 s.
// A -pace of 1.5s or more makes them equal.
package main
