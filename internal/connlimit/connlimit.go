// Package connlimit keeps clients that hold connections or send slow bodies from keeping others
// out. A Limiter bounds the connections of an http.Server and keeps a share of them for
// authenticated clients; a Budget bounds the memory of request bodies and the time that they may
// take.
package connlimit

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Limiter bounds the connections of an http.Server. A connection is unauthenticated until
// SetAuthenticated is called with the context of one of its requests. Unauthenticated connections
// never take more than their share, and the oldest of them is closed to make room: a new connection
// is never refused, so an attacker with many connections cannot lock clients out. Activity does not
// count, because an attacker can send a byte at any time. Safe for concurrent use.
type Limiter struct {
	most     int // connections
	unauthed int // of them at most unauthenticated
	newcomer int // of them, kept for unauthenticated ones while authenticated ones are idle

	mu    sync.Mutex // guards the fields below and those of conn
	open  map[net.Conn]*conn
	fresh *list.List // of *conn: unauthenticated, oldest first
	idle  *list.List // of *conn: authenticated and without a request, longest idle first
}

// conn is a connection. It is in at most one list.
type conn struct {
	net.Conn
	limiter *Limiter
	authed  atomic.Bool // written under Limiter.mu
	resting bool        // without a request
	in      *list.List
	at      *list.Element
}

// New makes a limit of most connections, of which reserved are only for authenticated clients.
func New(most, reserved int) *Limiter {
	unauthed := max(most-reserved, 1)
	return &Limiter{most: max(most, 1), unauthed: unauthed, newcomer: max(unauthed/3, 1), open: map[net.Conn]*conn{}, fresh: list.New(), idle: list.New()}
}

type connKey struct{}

// Install makes a server obey the limit. It sets ConnState and ConnContext.
func (l *Limiter) Install(h *http.Server) {
	h.ConnState = l.track
	h.ConnContext = func(ctx context.Context, n net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, l.add(n))
	}
}

// SetAuthenticated records whether the client of a request is authenticated. It does nothing if no
// Limiter is installed.
func SetAuthenticated(ctx context.Context, yes bool) {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil || c.authed.Load() == yes {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.limiter.open[c.Conn] == c {
		c.authed.Store(yes)
		c.limiter.place(c)
	}
}

func (l *Limiter) add(n net.Conn) *conn {
	c := &conn{Conn: n, limiter: l, resting: true}
	l.mu.Lock()
	l.open[n] = c
	l.place(c)
	excess := l.excess(c)
	if excess != nil {
		l.remove(excess)
	}
	l.mu.Unlock()
	if excess != nil {
		closeNow(excess.Conn)
	}
	return c
}

// place puts a connection into the list that it belongs to, at the end if it was not there.
func (l *Limiter) place(c *conn) {
	var to *list.List
	switch {
	case !c.authed.Load():
		to = l.fresh
	case c.resting:
		to = l.idle
	}
	if to == c.in {
		return
	}
	if c.in != nil {
		c.in.Remove(c.at)
	}
	if c.in = to; to != nil {
		c.at = to.PushBack(c)
	}
}

func (l *Limiter) remove(c *conn) {
	if c.in != nil {
		c.in.Remove(c.at)
		c.in = nil
	}
	delete(l.open, c.Conn)
}

// excess chooses the connection that makes room for a new one; nil if there is room. If all others
// are authenticated and at work, it is the new one.
func (l *Limiter) excess(added *conn) *conn {
	if l.fresh.Len() <= l.unauthed && len(l.open) <= l.most {
		return nil
	}
	if l.fresh.Len() <= l.newcomer && l.fresh.Len() <= l.unauthed && l.idle.Len() > 0 {
		return l.idle.Front().Value.(*conn)
	}
	return l.fresh.Front().Value.(*conn) // there is one: the new connection
}

func (l *Limiter) track(n net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[n]
	if c == nil {
		return
	}
	switch s {
	case http.StateClosed, http.StateHijacked:
		l.remove(c)
	case http.StateActive:
		c.resting = false
		l.place(c)
	case http.StateIdle:
		c.resting = true
		l.place(c)
	}
}

// closeNow closes a connection without the farewell of TLS, which would wait for a client that does
// not read.
func closeNow(n net.Conn) {
	if t, ok := n.(*tls.Conn); ok {
		n = t.NetConn()
	}
	_ = n.Close()
}
