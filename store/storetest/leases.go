package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// extends sends one Extend and wants it to stand or not.
func (s *asWorker) extends(l sojourn.Lease, stands bool) string {
	s.Helper()
	e := s.extend(l)[0]
	switch {
	case stands:
		s.must(e.Err, "Extend")
		s.at("lease_until", e.Until, s.get(l.ID).LeaseUntil)
	case e.Reason == "" || !e.Until.IsZero():
		s.Fatalf("Extend of %+v answered %+v, want it lost", l, e)
	default:
		s.is(e.Err, sojourn.ErrLeaseLost, "Extend of a lost lease")
	}
	return e.Reason
}

// extend extends leases and wants one answer for each.
func (s *asWorker) extend(leases ...sojourn.Lease) []driver.Extended {
	s.Helper()
	answers, err := s.store.Extend(s.ctx, leases)
	s.must(err, "Extend")
	same(s, "answers of Extend", len(answers), len(leases))
	return answers
}

// outlive extends a lease beyond a timeout or deadline that ends with the lease's first length, and
// wants the sweep to act one lease later, while the lease itself is still valid.
func (s *asWorker) outlive(l sojourn.Lease, want driver.Swept) {
	s.Helper()
	for range 3 {
		s.advance(lease - 15*time.Second)
		s.extends(l, true)
	}
	s.swept(15*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, want)
}

// drain claims everything, one by one, and completes it.
func (s *asWorker) drain(wishes ...wish) []sojourn.ID {
	s.Helper()
	var ids []sojourn.ID
	for {
		cs := s.claimMany(wishes...)
		if len(cs) == 0 {
			return ids
		}
		for _, c := range cs {
			ids = append(ids, c.Job.ID)
			s.finish(completed(c), sojourn.Completed)
		}
	}
}

func (s *asWorker) order(got, want []sojourn.ID) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("claimed in the order %v, want %v", got, want)
	}
}

// save sends one item and returns its error.
func (s *asWorker) save(item driver.Saved) error {
	s.Helper()
	answers, err := s.store.Save(s.ctx, []driver.Saved{item})
	s.must(err, "Save")
	if len(answers) != 1 {
		s.Fatalf("Save of 1 item gave %d answers", len(answers))
	}
	e := answers[0]
	if e.Err == nil {
		s.at("lease_until", e.Until, s.get(item.Lease.ID).LeaseUntil)
	}
	same(s, "a reason of a lost lease", e.Reason != "", errors.Is(e.Err, sojourn.ErrLeaseLost))
	return e.Err
}
