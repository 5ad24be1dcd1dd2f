// Package admission decides which requests of a server run now. Requests that finish work come
// before those that start it, and a request without a place is refused before it has any effect.
//
// Limiter bounds the requests at work and their bytes, pressure.go adapts that bound to the latency
// of the work, and Rates bounds the requests of one token.
package admission

import (
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Class is the priority of a request under overload: requests that finish work come before those
// that start it, and reads come last.
type Class uint8

// The classes, the lowest first.
const (
	Reading Class = iota
	Enqueueing
	Claiming
	Finishing // and extending: a lease that is lost for lack of a slot is work done twice
)

// String names the class as the description of the API does.
func (c Class) String() string {
	return [...]string{Reading: "read", Enqueueing: "enqueue", Claiming: "claim", Finishing: "finish"}[c]
}

// Share is the percentage of the slots up to which a class is admitted. The rest is reserved for
// the classes above it.
func (c Class) Share() int64 {
	return [...]int64{Reading: 50, Enqueueing: 75, Claiming: 90, Finishing: 100}[c]
}

// Limiter limits concurrent requests. A request above the limit is refused at once, before it
// has any effect, so that the caller may repeat it. Queuing requests in front of a busy store would
// only delay all of them.
//
// A request takes a slot only when its body has been read, so that slow senders hold none;
// connlimit.Budget bounds the bodies themselves.
type Limiter struct {
	requests, waiting       atomic.Int64
	pressure                pressure
	maxRequests, maxWaiting int64
}

// NewLimiter admits at most maxRequests requests at work and maxWaiting that wait, at a time.
func NewLimiter(maxRequests, maxWaiting int) *Limiter {
	return &Limiter{pressure: pressure{limit: firstLimit}, maxRequests: int64(maxRequests), maxWaiting: int64(maxWaiting)}
}

// Overloaded is the refusal of a request for which there is no slot.
func Overloaded() error {
	e := wire.Refusal(wire.CodeOverloaded, "the server is overloaded; nothing was stored, try again after the time in Retry-After")
	e.Retryable = true
	return e
}

// Requests is the number of requests at work.
func (l *Limiter) Requests() int64 { return l.requests.Load() }

// Waiting is the number of requests that wait without a slot.
func (l *Limiter) Waiting() int64 { return l.waiting.Load() }

// Slot is a request at work.
type Slot struct {
	limiter *Limiter
	class   Class
	bytes   int64
	waiting bool
	read    time.Time // when the body was there; zero for one that is read while the request is at work
}

// Full reports whether a request of a class would be refused now. It takes nothing: it spares
// reading a body for which there is no slot.
func (l *Limiter) Full(c Class) bool {
	return (l.requests.Load()+1)*100 > l.maxRequests*c.Share() || l.pressure.full(c)
}

// Enter takes a slot for a request of a class with a body of so many bytes.
func (l *Limiter) Enter(c Class, bytes int64) (*Slot, error) {
	n := l.requests.Add(1)
	if n*100 > l.maxRequests*c.Share() || !l.pressure.enter(c, cost(bytes)) {
		l.requests.Add(-1)
		return nil, Overloaded()
	}
	return &Slot{limiter: l, class: c, bytes: bytes}, nil
}

// Wait counts a request that waits without a slot.
func (l *Limiter) Wait() error {
	if l.waiting.Add(1) > l.maxWaiting {
		l.waiting.Add(-1)
		return Overloaded()
	}
	return nil
}

// Waited ends the wait of a request.
func (l *Limiter) Waited() { l.waiting.Add(-1) }

// Park gives the slot back while the request waits for something to happen.
func (s *Slot) Park() error {
	if s.waiting {
		return nil
	}
	if err := s.limiter.Wait(); err != nil {
		return err
	}
	s.waiting = true
	s.limiter.requests.Add(-1)
	s.limiter.pressure.leave(cost(s.bytes), 0, time.Time{})
	return nil
}

// BodyRead records that the body is there: the time of the work counts from now on.
func (s *Slot) BodyRead() { s.read = time.Now() }

// Leave gives the slot back when the request has ended.
func (s *Slot) Leave() {
	if s.waiting {
		s.limiter.Waited()
		return
	}
	s.limiter.requests.Add(-1)
	now, took := time.Now(), time.Duration(0)
	if s.class == Enqueueing && !s.read.IsZero() {
		took = max(now.Sub(s.read), 1)
	}
	s.limiter.pressure.leave(cost(s.bytes), took, now)
}
