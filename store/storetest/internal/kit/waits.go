package kit

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
)

type ClaimAnswer struct {
	Jobs []driver.Claimed
	Err  error
}

// Block starts a claim that waits, and wants it not to be answered by itself.
func (s *asWorker) Block(ctx context.Context, wishes ...ClaimOption) <-chan ClaimAnswer {
	s.Helper()
	done := make(chan ClaimAnswer, 1)
	r := s.Request(append([]ClaimOption{Waiting()}, wishes...)...)
	go func() {
		jobs, err := s.Store.Claim(ctx, r)
		done <- ClaimAnswer{jobs, err}
	}()
	s.Stays(done)
	return done
}

// Stays wants nothing to come for a moment.
func (s *asWorker) Stays(done <-chan ClaimAnswer) {
	s.Helper()
	select {
	case a := <-done:
		s.Fatalf("a claim that has to wait answered %v, %v", ClaimedIDs(a.Jobs), a.Err)
	case <-time.After(Moment):
	}
}

// Answered wants a blocked claim to be answered with one job.
func (s *asWorker) Answered(done <-chan ClaimAnswer, what string) driver.Claimed {
	s.Helper()
	select {
	case a := <-done:
		s.Must(a.Err, "Claim, woken by %s", what)
		if len(a.Jobs) != 1 {
			s.Fatalf("Claim, woken by %s, gave %d jobs", what, len(a.Jobs))
		}
		return a.Jobs[0]
	case <-time.After(Patience):
		s.Fatalf("a blocked claim was not woken by %s within %v", what, Patience)
	}
	return driver.Claimed{}
}

// SideBySide runs functions at the same time and waits for them all.
func SideBySide(fs ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, f := range fs {
		wg.Go(func() {
			<-start
			f()
		})
	}
	close(start)
	wg.Wait()
}
