// Command demo shows prebind at work on a real control plane: it builds the
// programs, starts etcd, the API server, the controllers, the scheduler in mode
// bind and prebind under its own ServiceAccount, applies examples/workloads, and
// shows how the pods get their volumes and nodes.
//
// It exits with status 0 when all pods are bound, 1 otherwise. On a terminal it
// stays up until Ctrl-C, unless ONCE=1 is set; then, and where there is no
// terminal, it stops everything and exits. It writes to the repository's build
// folder and the system's temp folder, and listens on free loopback ports only.
package main
