// Package volumescheduling proves with prebind registered what kube-scheduler's
// own integration tests for volumes prove without it.
package volumescheduling
