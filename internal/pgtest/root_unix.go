//go:build unix

package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Unprivileged turns root into nobody: as is nil for anybody else.
func Unprivileged() (as *syscall.SysProcAttr, chown func(path string) error) {
	u, err := user.Lookup("nobody")
	if err != nil || os.Geteuid() != 0 {
		return nil, func(string) error { return err }
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return as, func(path string) error { return os.Chown(path, uid, gid) }
}
