package sqlstore

import (
	"sync"
)

// operator changes what is stored on behalf of people and of time: settings, edits, retention, and
// the sweep of overdue jobs.
type operator struct {
	core     *core
	gates    *gates
	hub      *hub
	reader   *reader
	rebasing sync.Mutex // held while leases are shifted after a step of the clock
}
