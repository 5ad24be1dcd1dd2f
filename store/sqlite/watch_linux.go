package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// fileWatch tells of writes to one file, by inotify.
type fileWatch struct {
	file *os.File
	buf  [4096]byte
}

// watchFile begins to watch a file that exists.
func watchFile(path string) (*fileWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &fileWatch{file: os.NewFile(uintptr(fd), "inotify")}, nil
}

// wait waits for the next writes, and takes all that have happened. It returns false after close.
func (w *fileWatch) wait() bool {
	n, err := w.file.Read(w.buf[:])
	return err == nil && n > 0
}

// close ends wait.
func (w *fileWatch) close() { w.file.Close() }

// Signals implements sqldb.Signaler.
func (d *DB) Signals() string {
	if d.memory() {
		return ""
	}
	return "inotify"
}
