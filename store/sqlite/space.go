package sqlite

import (
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// space limits new jobs by the free bytes of a disk; see LowSpace. Safe for concurrent use.
type space struct {
	dir   string
	least int64
	free  func(dir string) int64 // -1 if it is not known

	mu     sync.Mutex // guards the fields below
	looked time.Time
	low    error
}

// spaceEvery is the maximum age of the cached free space: in a second a store writes some 100 MB at
// most.
const spaceEvery = time.Second

func (s *space) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.looked.IsZero() || now.Sub(s.looked).Abs() >= spaceEvery {
		s.looked, s.low = now, nil
		if free := s.free(s.dir); free >= 0 && free < s.least {
			s.low = &sojourn.Error{Code: sojourn.CodeLowSpace, Index: -1, Retryable: true, Message: "the disk is nearly full, so new jobs are refused: make room, or lower the bound " +
				"(LowSpace, --low-space); jobs that are stored go on"}
		}
	}
	return s.low
}
