//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// links returns the number of names of a file.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}
