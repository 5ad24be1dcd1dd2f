package server

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// DefaultMaxConns is how many connections a server holds at a time.
const DefaultMaxConns = 10_000

// Conns bounds the connections of an http.Server: when one too many comes, the connection that has rested longest without a request is closed, and
// if all are at work, the new one. Its method Track is for http.Server.ConnState. Safe for concurrent use.
type Conns struct {
	most int

	mu    sync.Mutex // guards the fields below
	open  map[net.Conn]bool
	idle  *list.List // oldest first
	place map[net.Conn]*list.Element
}

// NewConns makes a bound; most is 1 or more.
func NewConns(most int) *Conns {
	return &Conns{most: most, open: map[net.Conn]bool{}, idle: list.New(), place: map[net.Conn]*list.Element{}}
}

// Track is told how the state of a connection changes.
func (c *Conns) Track(conn net.Conn, s http.ConnState) {
	if excess := c.track(conn, s); excess != nil {
		_ = excess.Close()
	}
}

func (c *Conns) track(conn net.Conn, s http.ConnState) (excess net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.place[conn]; at != nil {
		c.idle.Remove(at)
		delete(c.place, conn)
	}
	switch s {
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	case http.StateNew, http.StateIdle: // one that has sent nothing yet rests too
		c.place[conn] = c.idle.PushBack(conn)
		c.open[conn] = true
	}
	if s != http.StateNew || len(c.open) <= c.most {
		return nil
	}
	excess = c.idle.Remove(c.idle.Front()).(net.Conn) // there is one: this
	delete(c.place, excess)
	delete(c.open, excess)
	return excess
}
