//go:build unix && !linux

package controlplane

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// reaches us alone. Only Linux can tie its life to ours.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
