//go:build !linux

package sqlite

import "errors"

// fileWatch is not built on this system: the store polls every 100 ms.
type fileWatch struct{}

func watchFile(string) (*fileWatch, error) {
	return nil, errors.New("files cannot be watched on this system")
}

func (w *fileWatch) wait() bool { return false }
func (w *fileWatch) close()     {}

// Signals implements sqldb.Signaler.
func (d *DB) Signals() string {
	if d.memory() {
		return ""
	}
	return "poll"
}
