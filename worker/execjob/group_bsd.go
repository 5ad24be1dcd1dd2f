//go:build unix && !linux

package execjob

import "syscall"

// ownGroup makes the program the leader of a group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
