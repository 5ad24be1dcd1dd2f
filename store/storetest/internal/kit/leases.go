package kit

import (
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Extends sends one Extend and wants it to stand or not.
func (s *asWorker) Extends(l sojourn.Lease, stands bool) string {
	s.Helper()
	e := s.Extend(l)[0]
	switch {
	case stands:
		s.Must(e.Err, "Extend")
		s.At("lease_until", e.Until, s.Get(l.ID).LeaseUntil)
	case e.Reason == "" || !e.Until.IsZero():
		s.Fatalf("Extend of %+v answered %+v, want it lost", l, e)
	default:
		s.Is(e.Err, sojourn.ErrLeaseLost, "Extend of a lost lease")
	}
	return e.Reason
}

// Extend extends leases and wants one answer for each.
func (s *asWorker) Extend(leases ...sojourn.Lease) []driver.Extended {
	s.Helper()
	answers, err := s.Store.Extend(s.Ctx, leases)
	s.Must(err, "Extend")
	Same(s, "answers of Extend", len(answers), len(leases))
	return answers
}

// Outlive extends a lease beyond a timeout or deadline that ends with the lease's first length, and
// wants the sweep to act one lease later, while the lease itself is still valid.
func (s *asWorker) Outlive(l sojourn.Lease, want driver.Swept) {
	s.Helper()
	for range 3 {
		s.Advance(LeaseTime - 15*time.Second)
		s.Extends(l, true)
	}
	s.Swept(15*time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, want)
}

// Drain claims everything, one by one, and completes it.
func (s *asWorker) Drain(wishes ...ClaimOption) []sojourn.ID {
	s.Helper()
	var ids []sojourn.ID
	for {
		cs := s.ClaimMany(wishes...)
		if len(cs) == 0 {
			return ids
		}
		for _, c := range cs {
			ids = append(ids, c.Job.ID)
			s.Finish(Completed(c), sojourn.Completed)
		}
	}
}

func (s *asWorker) Order(got, want []sojourn.ID) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("claimed in the order %v, want %v", got, want)
	}
}

// Save sends one item and returns its error.
func (s *asWorker) Save(item driver.Saved) error {
	s.Helper()
	answers, err := s.Store.Save(s.Ctx, []driver.Saved{item})
	s.Must(err, "Save")
	if len(answers) != 1 {
		s.Fatalf("Save of 1 item gave %d answers", len(answers))
	}
	e := answers[0]
	if e.Err == nil {
		s.At("lease_until", e.Until, s.Get(item.Lease.ID).LeaseUntil)
	}
	Same(s, "a reason of a lost lease", e.Reason != "", errors.Is(e.Err, sojourn.ErrLeaseLost))
	return e.Err
}
