//go:build unix

package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileID identifies a file independently of its path.
type fileID struct{ device, inode uint64 }

func (f fileID) String() string { return fmt.Sprintf("%d:%d", f.device, f.inode) }

// identify finds the file that a path leads to. It opens nothing: closing a second descriptor of
// the database would drop the locks of SQLite.
func identify(path string) (fileID, error) {
	var s unix.Stat_t
	for {
		switch err := unix.Stat(path, &s); err {
		case nil:
			return fileID{uint64(s.Dev), uint64(s.Ino)}, nil
		case unix.EINTR:
		default:
			return fileID{}, err
		}
	}
}
