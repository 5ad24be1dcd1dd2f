//go:build unix

package filesys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ID identifies a file independently of its path.
type ID struct{ device, inode uint64 }

// String is the text that another process can compare.
func (f ID) String() string { return fmt.Sprintf("%d:%d", f.device, f.inode) }

// Identify finds the file that a path leads to. It opens nothing: closing a second descriptor of
// the database would drop the locks of SQLite.
func Identify(path string) (ID, error) {
	var s unix.Stat_t
	for {
		switch err := unix.Stat(path, &s); err {
		case nil:
			return ID{uint64(s.Dev), uint64(s.Ino)}, nil
		case unix.EINTR:
		default:
			return ID{}, err
		}
	}
}
