//go:build unix && !linux

package chart_test

import "syscall"

// childAttributes keeps Ctrl-C for the test. Only Linux can tie a child's life to ours.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
