// Package filesys asks the operating system about files what package os does not tell: the locks of
// a file, its identity, its names, and the disk and the kind of file system that it is on.
package filesys

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// Size is the length of a file; 0 if it cannot be read.
func Size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// At reports whether a path leads to an open file.
func At(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	found, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, found)
}

// Remove removes a file, which may be missing.
func Remove(path string) error { return IgnoreMissing(os.Remove(path)) }

// IgnoreMissing is err, unless it says that there is no such file.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync makes the contents of a file durable.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncDir makes names durable. Windows does so by itself, and opens no folder.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
