//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file's lock if it is free; closing the file frees it. flock belongs to the open file, so two stores of one process
// see each other like two processes, which fcntl's locks would not do.
func lock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// removeLocked removes a file whose lock is held, and frees the lock after that: in the other order another process could make
// the file its own in between.
func removeLocked(f *os.File) error {
	return errors.Join(os.Remove(f.Name()), f.Close())
}
