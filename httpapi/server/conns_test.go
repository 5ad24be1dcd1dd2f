package server

import (
	"net"
	"net/http"
	"testing"
)

// TestConns: the connection that has rested longest makes room, one at work never does (bad:61).
func TestConns(t *testing.T) {
	c := NewConns(3)
	conns := make([]net.Conn, 5)
	for i := range conns {
		near, far := net.Pipe()
		conns[i] = near
		t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	}
	closed := func(want net.Conn, conn net.Conn, s http.ConnState) {
		t.Helper()
		if got := c.track(conn, s); got != want {
			t.Errorf("%v closes the wrong connection", s)
		}
	}
	closed(nil, conns[0], http.StateNew)
	closed(nil, conns[0], http.StateActive)
	closed(nil, conns[1], http.StateNew)
	closed(nil, conns[1], http.StateActive)
	closed(nil, conns[2], http.StateNew)
	closed(nil, conns[1], http.StateIdle)
	closed(conns[2], conns[3], http.StateNew) // it has sent nothing, and has rested longer than the first
	closed(nil, conns[2], http.StateClosed)
	closed(nil, conns[3], http.StateActive)
	closed(conns[1], conns[4], http.StateNew)
	closed(nil, conns[1], http.StateClosed)
	closed(nil, conns[4], http.StateActive)
	closed(conns[2], conns[2], http.StateNew) // all others are at work
	closed(nil, conns[0], http.StateClosed)
	closed(nil, conns[1], http.StateNew)
	if len(c.open) != 3 || c.idle.Len() != 1 || len(c.place) != 1 {
		t.Errorf("%d open, %d idle, %d placed", len(c.open), c.idle.Len(), len(c.place))
	}
}
