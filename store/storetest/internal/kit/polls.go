package kit

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Every polls after d, without any randomness.
func Every(d time.Duration) sojourn.Backoff {
	return sojourn.Backoff{First: d, Factor: 2, Limit: 4 * d, Jitter: -1}
}

func Polled(c driver.Claimed, within time.Duration, poll sojourn.Backoff, keys ...string) sojourn.Outcome {
	o := Await(c, within, keys...)
	o.Wait.Poll = poll
	return o
}

// Polling makes a worker that has the poll functions of its kinds.
func Polling(r *driver.ClaimRequest) { r.Pollable = r.Kinds }

func NoAnswer(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeNoAnswer}
}

func Answers(c driver.Claimed, text string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAnswer, Result: []byte(text), ResultType: "text/plain"}
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
