package server

import (
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// class is the priority of a request under overload: requests that finish work come before those
// that start it, and reads come last.
type class uint8

const (
	reading class = iota
	enqueueing
	claiming
	finishing // and extending: a lease that is lost for lack of a slot is work done twice
)

// shares holds the percentage of the slots up to which each class is admitted. The rest is reserved
// for the classes above it.
var shares = [...]int64{reading: 50, enqueueing: 75, claiming: 90, finishing: 100}

// admission limits concurrent requests. A request above the limit is refused at once, before it
// has any effect, so that the caller may repeat it. Queuing requests in front of a busy store would
// only delay all of them.
//
// A request takes a slot only when its body has been read, so that slow senders hold none;
// connlimit.Budget bounds the bodies themselves.
type admission struct {
	requests, waiting       *atomic.Int64
	pressure                *pressure
	maxRequests, maxWaiting int64
}

func newAdmission(o Options) admission {
	return admission{new(atomic.Int64), new(atomic.Int64), &pressure{limit: firstLimit}, int64(o.MaxRequests), int64(o.MaxWaiting)}
}

func overloaded() error {
	e := wire.Refusal(wire.CodeOverloaded, "the server is overloaded; nothing was stored, try again after the time in Retry-After")
	e.Retryable = true
	return e
}

// slot is a request at work.
type slot struct {
	a       *admission
	class   class
	bytes   int64
	waiting bool
	read    time.Time // when the body was there; zero for one that is read while the request is at work
}

// full reports whether a request of a class would be refused now. It takes nothing: it spares
// reading a body for which there is no slot.
func (a *admission) full(c class) bool {
	return (a.requests.Load()+1)*100 > a.maxRequests*shares[c] || a.pressure.full(c)
}

// enter takes a slot for a request of a class with a body of so many bytes.
func (a *admission) enter(c class, bytes int64) (*slot, error) {
	n := a.requests.Add(1)
	if n*100 > a.maxRequests*shares[c] || !a.pressure.enter(c, cost(bytes)) {
		a.requests.Add(-1)
		return nil, overloaded()
	}
	return &slot{a: a, class: c, bytes: bytes}, nil
}

// wait counts a request that waits without a slot.
func (a *admission) wait() error {
	if a.waiting.Add(1) > a.maxWaiting {
		a.waiting.Add(-1)
		return overloaded()
	}
	return nil
}

func (a *admission) waited() { a.waiting.Add(-1) }

// park gives the slot back while the request waits for something to happen.
func (s *slot) park() error {
	if s.waiting {
		return nil
	}
	if err := s.a.wait(); err != nil {
		return err
	}
	s.waiting = true
	s.a.requests.Add(-1)
	s.a.pressure.leave(cost(s.bytes), 0, time.Time{})
	return nil
}

func (s *slot) leave() {
	if s.waiting {
		s.a.waited()
		return
	}
	s.a.requests.Add(-1)
	now, took := time.Now(), time.Duration(0)
	if s.class == enqueueing && !s.read.IsZero() {
		took = max(now.Sub(s.read), 1)
	}
	s.a.pressure.leave(cost(s.bytes), took, now)
}
