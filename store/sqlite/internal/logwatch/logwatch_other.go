//go:build !linux

package logwatch

import (
	"errors"
	"time"
)

// Works reports whether this system can watch files.
const Works = false

// Watch is not built on this system: the store polls.
type Watch struct{}

// New fails on this system.
func New(string, string) (*Watch, error) {
	return nil, errors.New("files cannot be watched on this system")
}

// Log does nothing on this system.
func (w *Watch) Log(bool) error { return nil }

// Wait returns false on this system.
func (w *Watch) Wait(time.Duration) (seen Seen, ok bool) { return Seen{}, false }

// Close does nothing on this system.
func (w *Watch) Close() {}
