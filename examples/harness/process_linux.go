package harness

import "syscall"

// sysProcAttr lets a child die with its parent, also where the parent is
// stopped without a chance to clean up (a test that runs into its deadline).
// The group of its own keeps a terminal's interrupt away from it.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
