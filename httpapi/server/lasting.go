package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// recheckEvery is how often the tokens of long polls and streams are checked.
const recheckEvery = 500 * time.Millisecond

// lasting are the requests that stay open: long polls and streams. While there are any, the server
// checks whether their tokens are still valid and still have the grants that the request needs, and
// ends those of which that is no longer true.
type lasting struct {
	mu      sync.Mutex // guards the fields below
	open    map[*lastingCall]bool
	ticking bool
}

// lastingCall is one of them.
type lastingCall struct {
	who   atomic.Pointer[holder]  // as of the last check
	needs func(*holder) error     // refuses a holder whose grants no longer suffice
	stop  context.CancelCauseFunc // ends the request with the reason
}

// last makes a request end, with the context that it returns, when its token is no longer valid or
// no longer suffices. The cause of that context is then the error for the caller. forget must be
// called when the request ends.
func (s *Server) last(ctx context.Context, who *holder, needs func(*holder) error) (_ context.Context, l *lastingCall, forget func()) {
	ctx, stop := context.WithCancelCause(ctx)
	l = &lastingCall{needs: needs, stop: stop}
	l.who.Store(who)
	if who.anyone {
		return ctx, l, func() { stop(nil) }
	}
	s.lasting.mu.Lock()
	defer s.lasting.mu.Unlock()
	if s.lasting.open == nil {
		s.lasting.open = map[*lastingCall]bool{}
	}
	s.lasting.open[l] = true
	if !s.lasting.ticking {
		s.lasting.ticking = true
		go s.recheck()
	}
	return ctx, l, func() {
		s.lasting.mu.Lock()
		delete(s.lasting.open, l)
		s.lasting.mu.Unlock()
		stop(nil)
	}
}

// recheck runs while there are lasting requests.
func (s *Server) recheck() {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for range tick.C {
		if !s.recheckOnce() {
			return
		}
	}
}

// recheckOnce reports whether there are lasting requests.
func (s *Server) recheckOnce() bool {
	s.lasting.mu.Lock()
	calls := make([]*lastingCall, 0, len(s.lasting.open))
	for l := range s.lasting.open {
		calls = append(calls, l)
	}
	s.lasting.ticking = len(calls) > 0
	s.lasting.mu.Unlock()
	for _, l := range calls {
		before := l.who.Load()
		now, err := s.door.current(context.Background(), before)
		switch {
		case err == nil:
			l.who.Store(now)
			err = l.needs(now)
		case now != nil && s.door.now().Before(before.until):
			err = nil // the tokens cannot be read now: only the known expiry is checked
		default:
			err = unauthorized
		}
		if err != nil {
			l.stop(err)
		}
	}
	return len(calls) > 0
}

// denied returns the reason why a lasting request was ended, if its token was the reason.
func denied(ctx context.Context) error {
	switch cause := context.Cause(ctx); sojourn.ErrorCode(cause) {
	case wire.CodeUnauthorized, wire.CodeForbidden:
		return cause
	}
	return nil
}

// renew checks the token again after something slow, and takes over changed grants.
func (c *call) renew() error {
	if c.who.anyone {
		return nil
	}
	now, err := c.door.current(c.ctx, c.who)
	if err == nil {
		c.setHolder(now)
	}
	return err
}

func (c *call) setHolder(h *holder) {
	c.who, c.ctx = h, access.WithCaller(c.ctx, h.caller)
}

// waiting starts a long poll of at most d: it releases the request's slot. The returned context
// ends when the caller disconnects, when the server drains (the poll then returns the results so
// far), or when denied has a reason. end must be called.
func (c *call) waiting(d time.Duration, needs func(*holder) error) (_ context.Context, end func(), err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	stop := context.AfterFunc(c.drained, cancel)
	release := func() { stop(); cancel() }
	if d <= 0 {
		return ctx, release, nil
	}
	if err := c.slot.Park(); err != nil {
		release()
		return nil, nil, err
	}
	ctx, _, forget := c.last(ctx, c.who, needs)
	return ctx, func() { forget(); release() }, nil
}
