package connlimit

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// crowd drives a Limiter without a server.
type crowd struct {
	*testing.T
	l     *Limiter
	conns []*probe
}

// probe is a connection that remembers whether it was closed.
type probe struct {
	net.Conn
	closed bool
	ctx    context.Context
}

func (p *probe) Close() error { p.closed = true; return p.Conn.Close() }

func newCrowd(t *testing.T, most, reserved int) *crowd { return &crowd{T: t, l: New(most, reserved)} }

func (c *crowd) open() *probe {
	near, far := net.Pipe()
	c.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	p := &probe{Conn: near}
	var h http.Server
	c.l.Install(&h)
	p.ctx = h.ConnContext(c.Context(), p)
	h.ConnState(p, http.StateNew)
	c.conns = append(c.conns, p)
	return p
}

// known is an authenticated connection.
func (c *crowd) known(s http.ConnState) *probe {
	p := c.open()
	c.l.track(p, http.StateActive)
	SetAuthenticated(p.ctx, true)
	c.l.track(p, s)
	return p
}

// closed lists the connections that were closed, by the order in which they were opened.
func (c *crowd) wantClosed(what string, want ...*probe) {
	c.Helper()
	expected := map[*probe]bool{}
	for _, p := range want {
		expected[p] = true
	}
	for i, p := range c.conns {
		if p.closed != expected[p] {
			c.Errorf("%s: connection %d is closed: %v", what, i, p.closed)
		}
	}
	if got, open := len(c.l.open), len(c.conns)-len(want); got != open {
		c.Errorf("%s: %d connections count, want %d", what, got, open)
	}
}

// TestStrangersMakeRoom: the oldest connection without a token is closed, whether it has sent
// something or not, and a newcomer is never refused.
func TestStrangersMakeRoom(t *testing.T) {
	c := newCrowd(t, 4, 1)
	first := c.open()
	c.l.track(first, http.StateActive)
	second, known := c.open(), c.known(http.StateIdle)
	c.open()
	c.wantClosed("as many as may be")
	c.open()
	c.wantClosed("one too many", first)
	c.open()
	c.wantClosed("another one too many", first, second)
	SetAuthenticated(known.ctx, false)
	c.wantClosed("a token that has become invalid", first, second)
}

// TestReserve: strangers cannot take the share of authenticated clients, and those cannot shut out
// newcomers with idle connections.
func TestReserve(t *testing.T) {
	c := newCrowd(t, 8, 2)
	var strangers []*probe
	for range 8 {
		strangers = append(strangers, c.open())
	}
	c.wantClosed("strangers have 6 of 8", strangers[0], strangers[1])
	c.known(http.StateActive)
	c.known(http.StateActive)
	c.wantClosed("the first client makes a stranger leave, the second fits into the reserve", strangers[:3]...)
	idle := c.known(http.StateIdle)
	c.known(http.StateActive)
	c.known(http.StateActive)
	c.known(http.StateActive)
	c.known(http.StateActive)
	c.wantClosed("clients may have more than the reserve", strangers[:7]...)
	c.open()
	c.wantClosed("two of eight are for newcomers while clients are idle", append(strangers[:7:7], idle)...)
}

// TestNewcomersRoom: when authenticated clients fill the server, their longest idle connection
// makes room for a newcomer.
func TestNewcomersRoom(t *testing.T) {
	c := newCrowd(t, 4, 1)
	for range 2 {
		c.known(http.StateActive)
	}
	idle := c.known(http.StateIdle)
	newer := c.known(http.StateIdle)
	fresh := c.open()
	c.wantClosed("an idle one makes room", idle)
	c.l.track(newer, http.StateActive)
	last := c.open()
	c.wantClosed("all others are at work, so the older newcomer makes room", idle, fresh)
	_ = last.Close()
	c.l.track(last, http.StateClosed)
	c.wantClosed("one that has ended does not count", idle, fresh, last)
}
