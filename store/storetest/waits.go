package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
)

type claimAnswer struct {
	jobs []driver.Claimed
	err  error
}

// block starts a claim that waits, and wants it not to be answered by itself.
func (s *asWorker) block(ctx context.Context, wishes ...wish) <-chan claimAnswer {
	s.Helper()
	done := make(chan claimAnswer, 1)
	r := s.request(append([]wish{waiting()}, wishes...)...)
	go func() {
		jobs, err := s.store.Claim(ctx, r)
		done <- claimAnswer{jobs, err}
	}()
	s.stays(done)
	return done
}

// stays wants nothing to come for a moment.
func (s *asWorker) stays(done <-chan claimAnswer) {
	s.Helper()
	select {
	case a := <-done:
		s.Fatalf("a claim that has to wait answered %v, %v", claimedIDs(a.jobs), a.err)
	case <-time.After(moment):
	}
}

// answered wants a blocked claim to be answered with one job.
func (s *asWorker) answered(done <-chan claimAnswer, what string) driver.Claimed {
	s.Helper()
	select {
	case a := <-done:
		s.must(a.err, "Claim, woken by %s", what)
		if len(a.jobs) != 1 {
			s.Fatalf("Claim, woken by %s, gave %d jobs", what, len(a.jobs))
		}
		return a.jobs[0]
	case <-time.After(patience):
		s.Fatalf("a blocked claim was not woken by %s within %v", what, patience)
	}
	return driver.Claimed{}
}

// sideBySide runs functions at the same time and waits for them all.
func sideBySide(fs ...func()) {
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
