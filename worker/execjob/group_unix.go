//go:build unix

package execjob

import (
	"errors"
	"syscall"
)

const groups = true // this system has process groups

func terminateGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGTERM) }

func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }

// groupLives reports whether a process of the group is left. One that belongs to another user by
// now counts.
func groupLives(leader int) bool { return !errors.Is(syscall.Kill(-leader, 0), syscall.ESRCH) }

// ownSession keeps signals of the terminal away.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
