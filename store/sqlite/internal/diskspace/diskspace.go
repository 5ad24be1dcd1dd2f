// Package diskspace limits new jobs by the free bytes of a disk.
package diskspace

import (
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

// Bound refuses new jobs while too few bytes are free. Safe for concurrent use.
type Bound struct {
	dir   string
	least int64
	free  func(dir string) int64 // -1 if it is not known

	mu     sync.Mutex // guards the fields below
	looked time.Time
	low    error
}

// New makes a bound for the disk of a folder, in bytes.
func New(dir string, least int64) *Bound { return &Bound{dir: dir, least: least, free: filesys.Free} }

// every is the maximum age of the cached free space: in a second a store writes some 100 MB at
// most.
const every = time.Second

// Check returns an error with CodeLowSpace while too few bytes are free.
func (s *Bound) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.looked.IsZero() || now.Sub(s.looked).Abs() >= every {
		s.looked, s.low = now, nil
		if free := s.free(s.dir); free >= 0 && free < s.least {
			s.low = &sojourn.Error{Code: sojourn.CodeLowSpace, Index: -1, Retryable: true, Message: "the disk is nearly full, so new jobs are refused: make room, or lower the bound " +
				"(LowSpace, --low-space); jobs that are stored go on"}
		}
	}
	return s.low
}
