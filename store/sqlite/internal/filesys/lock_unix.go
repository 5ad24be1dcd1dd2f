//go:build unix

package filesys

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes the file's lock for its owner if it is free; closing the file releases it. flock
// belongs to the open file, so two stores of one process see each other like two processes, which
// they would not do with locks of fcntl.
func Lock(f *os.File) (bool, error) { return flock(f, unix.LOCK_EX) }

// LockShared takes the lock together with others who look at the file, unless its owner lives.
func LockShared(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH) }

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

// RenamesOpen tells that an open file can be renamed.
const RenamesOpen = true

// RemoveLocked removes a file whose lock is held, and then releases the lock: in the other order
// another process could become its owner in between.
func RemoveLocked(f *os.File, path string) error {
	return errors.Join(os.Remove(path), f.Close())
}
