package sqlstore

import "sync/atomic"

var tuned atomic.Pointer[func(*Config)]

// Tune changes the configuration of all stores of this process that open until undo is called. It
// is for measurements and tests: optimisations are no options of users.
func Tune(change func(*Config)) (undo func()) {
	tuned.Store(&change)
	return func() { tuned.Store(nil) }
}
