//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file's lock for its owner if it is free; closing the file releases it. flock
// belongs to the open file, so two stores of one process see each other like two processes, which
// they would not do with locks of fcntl.
func lock(f *os.File) (bool, error) { return flock(f, unix.LOCK_EX) }

// lockShared takes the lock together with others who look at the file, unless its owner lives.
func lockShared(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// ownerTemporary is the name of an owner's file until it is locked. An owner that has its name and
// is not locked is dead: it cannot be one that is being created.
func ownerTemporary(path string) string { return path + unbornMark }

// removeLocked removes a file whose lock is held, and then releases the lock: in the other order
// another process could become its owner in between.
func removeLocked(f *os.File, path string) error {
	return errors.Join(os.Remove(path), f.Close())
}
