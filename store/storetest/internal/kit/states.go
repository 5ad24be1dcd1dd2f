package kit

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Running is a new job under a lease of w1.
func (s *Scene) Running(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.Enqueue(options...)
	j := s.Get(id)
	c := s.Claim(From(j.Queue), Kinds(j.Kind))
	Same(s, "the claimed job", c.Job.ID, id)
	return c
}

// Awaiting is a new job that waits for its answer until its attempt's timeout.
func (s *Scene) Awaiting(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(options...)
	s.Finish(Await(c, 0), sojourn.Awaiting)
	return c
}

// Resumed is a new job with an answer that it waited for and no handler has seen.
func (s *Scene) Resumed(key string, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Awaiting(append(options, sojourn.Key(key))...)
	if r := s.Respond(key); r.Outcome != sojourn.Applied {
		s.Fatalf("Respond to an awaiting job answered %+v, want applied", r)
	}
	if j := s.State(c.Job.ID, sojourn.Ready); !j.Resumed {
		s.Fatalf("job %d was answered and is not resumed", j.ID)
	}
	return c
}

// UnderPoll makes a job that awaits a response with the key and is polled every ten seconds. Its
// first poll step is running.
func (s *Scene) UnderPoll(key string, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(append([]sojourn.Option{sojourn.Key(key), Steady(time.Minute)}, options...)...)
	s.Finish(Polled(c, 0, Every(10*time.Second)), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	p := s.Claim(Polling)
	Same(s, "the polled job", p.Job.ID, c.Job.ID)
	Same(s, "purpose", p.Purpose, sojourn.PurposePoll)
	return p
}

// Retrying makes a job whose first attempt ended with an error; the second starts in ten seconds.
func (s *Scene) Retrying(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(append([]sojourn.Option{Steady(10 * time.Second)}, options...)...)
	s.Finish(Failure(c), sojourn.Scheduled)
	return c
}

// Errored makes a job of a kind with a retry handler, whose lease was lost.
func (s *Scene) Errored(options ...sojourn.Option) driver.Claimed {
	s.Helper()
	id := s.Enqueue(append([]sojourn.Option{Steady(10 * time.Second)}, options...)...)
	c := s.Claim(Deciding)
	Same(s, "the claimed job", c.Job.ID, id)
	s.Swept(LeaseTime, driver.Swept{Lost: 1})
	s.State(id, sojourn.Errored)
	return c
}

// Final is a new job that ended in a state.
func (s *Scene) Final(want sojourn.State, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(options...)
	switch want {
	case sojourn.Completed:
		s.Finish(Completed(c), want)
	case sojourn.Failed:
		s.Finish(Abort(c), want)
	default:
		s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled, Reason: "asked", Text: "asked to stop"}, want)
	}
	return c
}
