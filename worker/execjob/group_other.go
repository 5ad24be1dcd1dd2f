//go:build !unix

package execjob

import "syscall"

const groups = false

func terminateGroup(int) {}

func killGroup(int) {}

func groupLives(int) bool { return false }

func ownGroup() *syscall.SysProcAttr { return nil }

func ownSession() *syscall.SysProcAttr { return nil }
