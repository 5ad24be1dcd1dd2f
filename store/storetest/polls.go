package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// every polls after d, without any randomness.
func every(d time.Duration) sojourn.Backoff {
	return sojourn.Backoff{First: d, Factor: 2, Limit: 4 * d, Jitter: -1}
}

func polled(c driver.Claimed, within time.Duration, poll sojourn.Backoff, keys ...string) sojourn.Outcome {
	o := await(c, within, keys...)
	o.Wait.Poll = poll
	return o
}

// polling makes a worker that has the poll functions of its kinds.
func polling(r *driver.ClaimRequest) { r.Pollable = r.Kinds }

func noAnswer(c driver.Claimed) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeNoAnswer}
}

func answers(c driver.Claimed, text string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAnswer, Result: []byte(text), ResultType: "text/plain"}
}

// underPoll makes a job that awaits a response with the key and is polled every ten seconds. Its
// first poll step is running.
func (s *scene) underPoll(key string, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.running(append([]sojourn.Option{sojourn.Key(key), steady(time.Minute)}, options...)...)
	s.finish(polled(c, 0, every(10*time.Second)), sojourn.Awaiting)
	s.advance(10 * time.Second)
	p := s.claim(polling)
	same(s, "the polled job", p.Job.ID, c.Job.ID)
	same(s, "purpose", p.Purpose, sojourn.PurposePoll)
	return p
}
