package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// class says what matters most when there is too much to do: what ends work comes before what begins it, and looking comes last.
type class uint8

const (
	reading class = iota
	enqueueing
	claiming
	finishing // and extending: a lease that is lost for lack of a slot is work done twice
)

// shares are the parts of the slots, in percent, up to which a class is admitted: the rest is kept for the classes above it.
var shares = [...]int64{reading: 50, enqueueing: 75, claiming: 90, finishing: 100}

// admission bounds what is at work at a time. What it has no room for is refused at once, before anything has happened, so that the caller may
// repeat it: a queue of requests in front of a busy store would only make all of them late.
type admission struct {
	requests, bytes, waiting          *atomic.Int64
	pressure                          *pressure
	maxRequests, maxBytes, maxWaiting int64
}

func newAdmission(o Options) admission {
	return admission{new(atomic.Int64), new(atomic.Int64), new(atomic.Int64), &pressure{limit: firstLimit}, int64(o.MaxRequests), o.MaxBytes, int64(o.MaxWaiting)}
}

func overloaded() error {
	e := wire.Refusal(wire.CodeOverloaded, "the server has more to do than it can; nothing happened, try again after the time in Retry-After")
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

// enter takes a slot for a request of a class with a body of so many bytes.
func (a *admission) enter(c class, bytes int64) (*slot, error) {
	n, b := a.requests.Add(1), a.bytes.Add(bytes)
	if n*100 > a.maxRequests*shares[c] || b*100 > a.maxBytes*shares[c] && b > bytes || !a.pressure.enter(c, cost(bytes)) {
		a.requests.Add(-1)
		a.bytes.Add(-bytes)
		return nil, overloaded()
	}
	return &slot{a: a, class: c, bytes: bytes}, nil
}

// park gives the slot back while the request waits for something to happen.
func (s *slot) park() error {
	if s.waiting {
		return nil
	}
	if s.a.waiting.Add(1) > s.a.maxWaiting {
		s.a.waiting.Add(-1)
		return overloaded()
	}
	s.waiting = true
	s.a.requests.Add(-1)
	s.a.pressure.leave(cost(s.bytes), 0, time.Time{})
	return nil
}

func (s *slot) leave() {
	s.a.bytes.Add(-s.bytes)
	if s.waiting {
		s.a.waiting.Add(-1)
		return
	}
	s.a.requests.Add(-1)
	now, took := time.Now(), time.Duration(0)
	if s.class == enqueueing && !s.read.IsZero() {
		took = max(now.Sub(s.read), 1)
	}
	s.a.pressure.leave(cost(s.bytes), took, now)
}

// length is what a body may take in memory. One of unknown length counts as the largest.
func length(r *http.Request, most int64) int64 {
	if r.ContentLength < 0 {
		return most
	}
	return min(r.ContentLength, most)
}
