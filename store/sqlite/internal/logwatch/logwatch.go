// Package logwatch tells a process of writes to a write-ahead log and of other processes that come
// to its database, or leave it. It needs inotify, so it works on Linux only.
package logwatch

// Seen is what a Wait has seen. Each is a hint: it may be true without cause, and never stays false
// after the event.
type Seen struct {
	Log    bool // the log was written to; only while Log is switched on
	Owners bool // an owner's file was made, named or removed
}
