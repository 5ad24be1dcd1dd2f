package execjob

import "syscall"

// ownGroup makes the program the leader of a group, and lets the kernel kill it when the worker is
// gone.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
