package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

const (
	txProducers = 8  // goroutines with transactions
	txEach      = 12 // transactions of each
	txKeys      = 5  // over which they race
	maxRepeats  = 50 // of a transaction that others overtake
)

// txSideBySide runs producers with transactions of the application, producers without, and workers
// that complete in transactions, all at once.
func txSideBySide(s *txScene) {
	var mu sync.Mutex // guards the two below
	committed := map[int64]bool{}
	var failed []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	}
	ids := make(chan sojourn.Job, 2*txEach)
	for range 2 * txEach { // the scene's own ids are not for goroutines
		ids <- s.Job(kit.OfKind("plain"))
	}
	close(ids)
	var producers, all sync.WaitGroup
	for p := range txProducers {
		producers.Go(func() {
			for i := range txEach {
				n := int64(p*txEach + i)
				ok, err := s.produce(n)
				if err != nil {
					fail(fmt.Errorf("transaction %d: %w", n, err))
				}
				mu.Lock()
				committed[n] = ok
				mu.Unlock()
			}
		})
	}
	producers.Go(func() {
		for j := range ids {
			if _, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false); err != nil {
				fail(fmt.Errorf("plain enqueue: %w", err))
			}
		}
	})
	over := make(chan struct{})
	for w := range 2 {
		all.Go(func() {
			if err := s.drain(fmt.Sprint("tx", w), over); err != nil {
				fail(fmt.Errorf("worker: %w", err))
			}
		})
	}
	producers.Wait()
	close(over)
	all.Wait()
	for _, err := range failed {
		s.Error(err)
	}
	s.sideBySide(committed)
}

// sideBySide compares the stored rows with the committed transactions: numbers of producers from 0,
// of completions from 1,000,000.
func (s *txScene) sideBySide(committed map[int64]bool) {
	rows := map[int64]int{}
	for _, n := range s.app.Rows(s.T) {
		rows[n]++
	}
	for n, ok := range committed {
		if got := rows[n]; got > 1 || (got == 1) != ok {
			s.Errorf("transaction %d was committed: %v; its row is there %d times", n, ok, got)
		}
	}
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Full: true, Limit: sojourn.MaxFind})
	s.Must(err, "Find")
	found := map[int64]bool{}
	for _, j := range jobs {
		if j.State != sojourn.Completed {
			s.Errorf("job %d is %s: %s", j.ID, j.State, j.Error)
		}
		if got := rows[1_000_000+int64(j.ID)]; got != 1 {
			s.Errorf("job %d is completed, and the row of its completion is there %d times", j.ID, got)
		}
		if j.Kind == kit.Kind && j.Key == "" {
			n, _ := strconv.ParseInt(string(j.Args), 10, 64)
			if !committed[n] || found[n] {
				s.Errorf("the job of transaction %d exists (a second time: %v); it was committed: %v", n, found[n], committed[n])
			}
			found[n] = true
		}
	}
	for n, ok := range committed {
		if ok && !found[n] {
			s.Errorf("transaction %d was committed, and its job does not exist", n)
		}
	}
}

// produce makes one transaction: a row, a job of its own, and two jobs with keys over which all
// race. Every third one rolls back.
func (s *txScene) produce(n int64) (committed bool, err error) {
	a, b := fmt.Sprint("k", n%txKeys), fmt.Sprint("k", (n*3+1)%txKeys)
	return n%3 != 0, s.repeatedly(func(x tx) (bool, error) {
		if err := x.Insert(n); err != nil {
			return false, err
		}
		if _, err := x.try(anonymous(sojourn.Key(a)), anonymous(kit.Args(fmt.Sprint(n))), anonymous(sojourn.Key(b))); err != nil {
			return false, err
		}
		return n%3 != 0, nil
	})
}

// repeatedly runs a transaction until it is not asked to repeat it.
func (s *txScene) repeatedly(do func(x tx) (commit bool, err error)) (err error) {
	for range maxRepeats {
		var h Tx
		if h, err = s.app.Begin(); err != nil {
			return err
		}
		commit, done := do(tx{h, s})
		if err = done; err == nil && commit {
			if err = h.Commit(); err == nil {
				return nil
			}
			continue
		}
		if back := h.Rollback(); back != nil {
			return errors.Join(err, back)
		}
		e, ok := errors.AsType[*sojourn.Error](err)
		if err == nil || !ok || !e.Retryable {
			return err
		}
	}
	return fmt.Errorf("after %d tries: %w", maxRepeats, err)
}

// drain claims and completes in transactions until over is closed and nothing is left.
func (s *txScene) drain(worker string, over <-chan struct{}) error {
	for number := int64(1); ; number++ {
		last := false
		select {
		case <-over:
			last = true
		default:
		}
		cs, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: worker, Number: number, Queues: []string{kit.Queue}, Kinds: []string{kit.Kind, "plain"},
			Max: 4, Capacity: 4, Lease: kit.LeaseTime})
		if err != nil || len(cs) == 0 && last {
			return err
		}
		for _, c := range cs {
			err := s.repeatedly(func(x tx) (bool, error) {
				if err := x.Insert(1_000_000 + int64(c.Lease.ID)); err != nil {
					return false, err
				}
				return true, x.finish(kit.Completed(c))
			})
			if err != nil {
				return err
			}
		}
	}
}
