//go:build unix && !linux

package harness

import "syscall"

// sysProcAttr puts a child into a group of its own, which keeps a terminal's
// interrupt away from it.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
