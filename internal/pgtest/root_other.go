//go:build !unix

package pgtest

import "syscall"

// Unprivileged does nothing here: there is no root who would have to become somebody else.
func Unprivileged() (as *syscall.SysProcAttr, chown func(path string) error) {
	return nil, func(string) error { return nil }
}
