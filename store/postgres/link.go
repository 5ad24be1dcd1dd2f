package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	errCut     = errors.New("the connection was closed: the server has not answered and is idle")
	errClosing = errors.New("the store was closed")
	errLate    = errors.New("the server has not answered the commit in time")
	errCommits = errors.New("a cancel request would end the commit's wait for the standby")
)

// link is the network connection below a connection of the driver. It ends an exchange of messages
// whose connection was cut, but not a slow commit.
//
// After any error the driver asks the server to cancel the statement under way. That would end a
// commit's wait for the synchronous standby, so no such request is sent while the link commits. The
// connection of a commit is never closed either: after its limit the driver gets an error, and the
// link goes on waiting for the server's answer. So the number of commits that wait for a standby
// never exceeds the store's number of writers.
type link struct {
	net.Conn
	db       *DB
	timer    *time.Timer
	detached atomic.Bool // the driver has got errLate, and cannot reach the server any more

	mu     sync.Mutex // guards the fields below
	ready  bool       // the driver has connected
	pid    uint32     // of the backend
	pooled bool       // the other end is a pooler
	busy   bool       // an exchange of messages is under way, since began
	commit bool       // that ends with a commit, or the last one has
	began  time.Time
	over   chan struct{} // closed when the exchange ends; nil until the timer looks at it
	cause  error         // why the exchange was ended
}

// dialLink makes the function by which the driver opens one connection, and later its cancel
// requests.
func (d *DB) dialLink(dial pgconn.DialFunc) pgconn.DialFunc {
	var l *link
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if l != nil && l.commits() {
			return nil, errCommits
		}
		c, err := dial(ctx, network, address)
		if err != nil || l.connected() {
			return c, err
		}
		l = &link{Conn: c, db: d}
		l.timer = time.AfterFunc(time.Hour, l.examine)
		l.timer.Stop()
		return l, nil
	}
}

// linkOf returns the link of one of the store's own connections.
func linkOf(c *pgx.Conn) *link {
	n := c.PgConn().Conn()
	if t, ok := n.(*tls.Conn); ok {
		n = t.NetConn()
	}
	return n.(*link)
}

func (l *link) established(pid uint32, pooled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready, l.pid, l.pooled = true, pid, pooled
}

func (l *link) connected() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

func (l *link) commits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commit
}

// exchange runs an exchange of messages, and ends it if the connection is cut, or if it is a commit
// that takes too long.
func (l *link) exchange(commit bool, run func() error) error {
	if l == nil {
		return run()
	}
	first := l.db.limits.answer
	if commit {
		first = min(first, l.db.limits.commit)
	}
	l.mu.Lock()
	l.busy, l.commit, l.began = true, commit, time.Now()
	l.mu.Unlock()
	l.timer.Reset(first)
	err := run()
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		close(l.over)
	}
	if l.cause != nil && err != nil {
		err = errors.Join(l.cause, err)
	}
	l.busy, l.over, l.cause = false, nil, nil // commit stays: the driver may be about to ask for a cancel
	return err
}

// committed allows cancel requests again. The connection is usable, so no commit is under way.
func (l *link) committed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commit = false
}

// examine ends the exchange once the server does not work on it any more. The timer calls it.
func (l *link) examine() {
	limits := &l.db.limits
	l.mu.Lock()
	began, commit, cuts := l.began, l.commit, !l.pooled
	if !l.busy || time.Since(began) < min(limits.answer, limits.commit) { // the timer was set for the exchange before
		l.mu.Unlock()
		return
	}
	over := make(chan struct{})
	l.over = over
	l.mu.Unlock()
	for {
		pause := limits.answer
		if commit {
			if time.Since(began) >= limits.commit {
				l.detach(over)
				return
			}
			pause = min(pause, limits.commit-time.Since(began))
		}
		if cuts && time.Since(began) >= limits.answer && !l.db.working(l.pid) && !after(over, limits.grace, nil) {
			l.end(over, errCut)
			return
		}
		if after(over, pause, l.db.closing) {
			l.end(over, errClosing)
			return
		}
	}
}

// after waits, and reports whether the exchange is over or the store has ended.
func after(over <-chan struct{}, pause time.Duration, closing <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-over:
	case <-closing:
	}
	return true
}

// end closes the connection, unless the exchange is over.
func (l *link) end(over chan struct{}, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == over {
		l.cause = cause
		_ = l.Conn.Close() // the driver would wait 15 s for the server to close it
	}
}

// detach takes the connection away from the driver, unless the exchange is over.
func (l *link) detach(over chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == over {
		l.cause = errLate
		l.detached.Store(true)
		_ = l.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes the driver
	}
}

// wait waits for the server's answer on a detached link, or for the end of the store, and closes
// the connection.
func (l *link) wait() {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_ = l.Conn.SetReadDeadline(time.Time{})
		_, _ = l.Conn.Read(make([]byte, 1))
	}()
	select {
	case <-answered:
	case <-l.db.closing:
	}
	_ = l.Conn.Close()
	<-answered
}

// Read implements net.Conn.
func (l *link) Read(b []byte) (int, error) {
	n, err := 0, error(errLate)
	if !l.detached.Load() {
		n, err = l.Conn.Read(b)
	}
	if err != nil && l.detached.Load() {
		err = errLate
	}
	return n, err
}

// Write implements net.Conn.
func (l *link) Write(b []byte) (int, error) {
	if l.detached.Load() {
		return 0, errLate
	}
	return l.Conn.Write(b)
}

// Close implements net.Conn.
func (l *link) Close() error {
	if l.detached.Load() {
		return nil
	}
	return l.Conn.Close()
}

// SetDeadline implements net.Conn.
func (l *link) SetDeadline(t time.Time) error {
	if l.detached.Load() {
		return nil
	}
	return l.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(t time.Time) error {
	if l.detached.Load() {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}
