package logwatch

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Works reports whether this system can watch files.
const Works = true

// Watch watches the log of one database and the owners' files beside it. One goroutine calls Wait
// and Log; Close may be called by another one.
type Watch struct {
	file   *os.File
	log    string // path
	logged int    // the descriptor of the watch of the log; -1 while it is off
	owners string // the begin of the names of owners' files
	buf    [4096]byte
}

// New begins to watch the owners' files, whose paths begin with owners. The log is not watched yet.
func New(log, owners string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	const named = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(owners), named); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Watch{file: os.NewFile(uintptr(fd), "inotify"), log: log, logged: -1, owners: filepath.Base(owners)}, nil
}

// Log switches the watch of the log on or off.
func (w *Watch) Log(on bool) error {
	if on == (w.logged >= 0) {
		return nil
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { // Close waits for it, so the descriptor is still this file's
		if on {
			w.logged, failed = unix.InotifyAddWatch(int(fd), w.log, unix.IN_MODIFY)
			return
		}
		_, failed = unix.InotifyRmWatch(int(fd), uint32(w.logged))
		w.logged = -1
	})
	return errors.Join(err, failed)
}

// Wait waits for the next events, and takes all that have happened. It waits for limit at most; 0 =
// for ever. It returns false after Close.
func (w *Watch) Wait(limit time.Duration) (seen Seen, ok bool) {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	if w.file.SetReadDeadline(deadline) != nil {
		return Seen{}, false
	}
	for !seen.Log && !seen.Owners {
		n, err := w.file.Read(w.buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return Seen{}, true
		}
		if err != nil || n <= 0 {
			return Seen{}, false
		}
		seen = w.read(w.buf[:n])
	}
	return seen, true
}

// read reads events. Each is a header of 16 bytes (watch, mask, cookie, length) and a name that is
// filled up with zeros, see inotify(7).
func (w *Watch) read(events []byte) (seen Seen) {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		end := min(len(events), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:])))
		name := string(events[unix.SizeofInotifyEvent:end])
		events = events[end:]
		seen.Log = seen.Log || mask&(unix.IN_MODIFY|unix.IN_Q_OVERFLOW) != 0
		seen.Owners = seen.Owners || mask&unix.IN_Q_OVERFLOW != 0 || strings.HasPrefix(name, w.owners)
	}
	return seen
}

// Close ends Wait.
func (w *Watch) Close() { w.file.Close() }
