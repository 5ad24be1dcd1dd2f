//go:build linux || darwin

package filesys

import "golang.org/x/sys/unix"

// Free returns the number of bytes that an ordinary user may still write on the disk of a
// folder; -1 if it is unknown.
func Free(dir string) int64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return -1
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}
