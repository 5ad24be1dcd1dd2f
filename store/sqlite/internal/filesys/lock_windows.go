package filesys

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock takes the file's lock for its owner if it is free; closing the file releases it.
func Lock(f *os.File) (bool, error) { return lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// LockShared takes the lock together with others who look at the file, unless its owner lives.
func LockShared(f *os.File) (bool, error) { return lockFile(f, 0) }

func lockFile(f *os.File, how uint32) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

// RenamesOpen tells that an open file can be renamed.
const RenamesOpen = false

// RemoveLocked removes a file whose lock is held. Windows cannot remove an open file, so the lock
// is released first; for the same reason a new owner in between keeps its file.
func RemoveLocked(f *os.File, path string) error {
	err := f.Close()
	removed := os.Remove(path)
	if errors.Is(removed, windows.ERROR_SHARING_VIOLATION) { // open in another process; found dead again later
		removed = nil
	}
	return errors.Join(err, removed)
}
