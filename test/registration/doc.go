// Package registration holds internal/registration against the code of
// kube-scheduler: its decoder, defaults and validation, and the scheduler that
// it builds from a file.
package registration
