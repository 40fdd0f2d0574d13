package controlplane

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// reaches us alone, and has the kernel kill it when the thread that started it
// ends: nothing outlives us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
