package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the file's lock if it is free; closing the file frees it.
func lock(f *os.File) (bool, error) {
	const mode = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), mode, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

// removeLocked removes a file whose lock is held. Windows removes no open file, so the lock goes first; for the same reason an
// owner that comes in between keeps its file.
func removeLocked(f *os.File) error {
	err := f.Close()
	removed := os.Remove(f.Name())
	if errors.Is(removed, windows.ERROR_SHARING_VIOLATION) { // somebody is looking at it; it shows up as dead again
		removed = nil
	}
	return errors.Join(err, removed)
}
