package kit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// asWorker calls the store as a worker does.
type asWorker struct {
	*environment
	Claims int64 // number of the last claim request
}

// A ClaimOption changes a claim request.
type ClaimOption func(*driver.ClaimRequest)

// By names the worker.
func By(worker string) ClaimOption { return func(r *driver.ClaimRequest) { r.Worker = worker } }

// From names the queues.
func From(queues ...string) ClaimOption { return func(r *driver.ClaimRequest) { r.Queues = queues } }

// Kinds names the kinds that the worker handles.
func Kinds(names ...string) ClaimOption { return func(r *driver.ClaimRequest) { r.Kinds = names } }

// UpTo bounds the number of jobs.
func UpTo(n int) ClaimOption { return func(r *driver.ClaimRequest) { r.Max = n } }

// Room is the weight that the worker can take.
func Room(capacity int64) ClaimOption { return func(r *driver.ClaimRequest) { r.Capacity = capacity } }

// Numbered sets the number of the request. A repeated request has the number of the first one.
func Numbered(n int64) ClaimOption { return func(r *driver.ClaimRequest) { r.Number = n } }

// Leased sets the length of the leases.
func Leased(d time.Duration) ClaimOption { return func(r *driver.ClaimRequest) { r.Lease = d } }

// Waiting lets the claim wait for a job.
func Waiting() ClaimOption { return func(r *driver.ClaimRequest) { r.Wait = sojourn.MaxWait } }

// Deciding declares that the worker has a retry handler for every kind.
func Deciding(r *driver.ClaimRequest) { r.Decidable = r.Kinds }

// Polling makes a worker that has the poll functions of its kinds.
func Polling(r *driver.ClaimRequest) { r.Pollable = r.Kinds }

// Request is a claim of one job by w1, with a new number.
func (s *asWorker) Request(options ...ClaimOption) driver.ClaimRequest {
	s.Claims++
	r := driver.ClaimRequest{Worker: "w1", Number: s.Claims, Queues: []string{Queue}, Kinds: []string{Kind}, Max: 1, Capacity: 1 << 30, Lease: LeaseTime}
	for _, set := range options {
		set(&r)
	}
	return r
}

// ClaimMany claims as many jobs as there are.
func (s *asWorker) ClaimMany(options ...ClaimOption) []driver.Claimed {
	s.Helper()
	return s.ClaimAs(s.Request(options...))
}

// ClaimAs sends a claim and checks the leases that it returns.
func (s *asWorker) ClaimAs(r driver.ClaimRequest) []driver.Claimed {
	s.Helper()
	cs, err := s.Store.Claim(s.Ctx, r)
	s.Must(err, "Claim")
	for _, c := range cs {
		if c.Lease.ID != c.Job.ID || c.Lease.Epoch != c.Job.Epoch || c.Lease.Worker != r.Worker {
			s.Fatalf("Claim gave the lease %+v for job %d with epoch %d", c.Lease, c.Job.ID, c.Job.Epoch)
		}
	}
	return cs
}

// Claim takes exactly one job.
func (s *asWorker) Claim(options ...ClaimOption) driver.Claimed {
	s.Helper()
	cs := s.ClaimMany(options...)
	if len(cs) != 1 {
		s.Fatalf("Claim gave %d jobs, want 1", len(cs))
	}
	return cs[0]
}

// ClaimNone wants nothing to be claimable.
func (s *asWorker) ClaimNone(why string, options ...ClaimOption) {
	s.Helper()
	if cs := s.ClaimMany(append([]ClaimOption{UpTo(100)}, options...)...); len(cs) != 0 {
		s.Fatalf("Claim gave %v, want none: %s", ClaimedIDs(cs), why)
	}
}

// ClaimedResponse wants a claim to give the job with a response, and returns this.
func (s *asWorker) ClaimedResponse(c driver.Claimed) sojourn.Response {
	s.Helper()
	if c.Job.Response == nil {
		s.Fatalf("job %d was claimed (%s) without the answer it should have in hand", c.Job.ID, c.Purpose)
	}
	return *c.Job.Response
}

// Drain claims everything, one by one, and completes it.
func (s *asWorker) Drain(options ...ClaimOption) []sojourn.ID {
	s.Helper()
	var ids []sojourn.ID
	for {
		cs := s.ClaimMany(options...)
		if len(cs) == 0 {
			return ids
		}
		for _, c := range cs {
			ids = append(ids, c.Job.ID)
			s.Finish(Completed(c), sojourn.Completed)
		}
	}
}

// Order wants jobs to be claimed in an order.
func (s *asWorker) Order(got, want []sojourn.ID) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("claimed in the order %v, want %v", got, want)
	}
}

// ClaimedIDs are the ids of claimed jobs, in their order.
func ClaimedIDs(cs []driver.Claimed) []sojourn.ID {
	ids := make([]sojourn.ID, len(cs))
	for i, c := range cs {
		ids[i] = c.Job.ID
	}
	return ids
}

// ClaimAnswer is what a claim that waited returned.
type ClaimAnswer struct {
	Jobs []driver.Claimed
	Err  error
}

// Block starts a claim that waits, and wants it not to be answered by itself.
func (s *asWorker) Block(ctx context.Context, options ...ClaimOption) <-chan ClaimAnswer {
	s.Helper()
	done := make(chan ClaimAnswer, 1)
	r := s.Request(append([]ClaimOption{Waiting()}, options...)...)
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

// Report sends one outcome and returns the answer.
func (s *asWorker) Report(o sojourn.Outcome) driver.Finished {
	s.Helper()
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{o})
	s.Must(err, "Finish")
	if len(fs) != 1 {
		s.Fatalf("Finish of 1 outcome gave %d answers", len(fs))
	}
	return fs[0]
}

// Finish wants the outcome to be applied and to leave the job in a state.
func (s *asWorker) Finish(o sojourn.Outcome, want sojourn.State) sojourn.Job {
	s.Helper()
	f := s.Report(o)
	if f.Status != driver.FinishApplied || f.State != want {
		s.Fatalf("Finish(%s) of job %d answered %s, state %s (reason %q, err %v); want applied, %s",
			o.Type, o.Lease.ID, f.Status, f.State, f.Reason, f.Err, want)
	}
	return s.State(o.Lease.ID, want)
}

// Reports wants the outcome to be answered so.
func (s *asWorker) Reports(o sojourn.Outcome, want driver.FinishStatus) driver.Finished {
	s.Helper()
	f := s.Report(o)
	if f.Status != want || errors.Is(f.Err, sojourn.ErrLeaseLost) != (want == driver.FinishLost) {
		s.Fatalf("Finish(%s) of %+v answered %s (state %s, reason %q, err %v), want %s", o.Type, o.Lease, f.Status, f.State, f.Reason, f.Err, want)
	}
	return f
}

// Extend extends leases and wants one answer for each.
func (s *asWorker) Extend(leases ...sojourn.Lease) []driver.Extended {
	s.Helper()
	answers, err := s.Store.Extend(s.Ctx, leases)
	s.Must(err, "Extend")
	Same(s, "answers of Extend", len(answers), len(leases))
	return answers
}

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
