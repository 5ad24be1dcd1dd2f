package pgtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Proxy stands between a client and a server of PostgreSQL, and fails as networks do.
type Proxy struct {
	URL string // of the database behind it

	mu      sync.Mutex // guards the fields below
	conns   map[*proxied]bool
	strikes int                          // commits whose answer is still to be replaced
	reply   []byte                       // what the client gets instead, before the connection is closed
	hold    func(fromClient []byte) bool // reports whether a message makes its connection hang
}

// proxied is one connection.
type proxied struct {
	client, server net.Conn
	hangs          chan struct{} // closed when nothing is forwarded any more, and nothing closed
	once           sync.Once
}

// NewProxy starts a proxy before the server of an address, which ends with the test.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: l.Addr().String(), Path: cfg.Database, RawQuery: "sslmode=disable"}
	p := &Proxy{URL: u.String(), conns: map[*proxied]bool{}}
	network, server := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, network, server)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			c.close()
		}
	})
	return p
}

func (c *proxied) close() {
	c.client.Close()
	c.server.Close()
}

func (p *Proxy) serve(client net.Conn, network, server string) {
	behind, err := net.Dial(network, server)
	if err != nil {
		client.Close()
		return
	}
	c := &proxied{client: client, server: behind, hangs: make(chan struct{})}
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		c.close()
	}()
	go func() {
		p.forward(c, behind, client, p.request)
		select {
		case <-c.hangs:
		default:
			behind.Close()
		}
	}()
	p.forward(c, client, behind, p.answer)
	select {
	case <-c.hangs:
		io.Copy(io.Discard, client) // until the client gives up
	default:
	}
}

// forward copies data; pass may change it, and reports whether the connection continues.
func (p *Proxy) forward(c *proxied, to, from net.Conn, pass func(*proxied, []byte) ([]byte, bool)) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		select {
		case <-c.hangs:
			return
		default:
		}
		if n > 0 {
			out, goes := pass(c, buffer[:n])
			if _, failed := to.Write(out); failed != nil || !goes {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// committed is the server's reply to a commit.
var committed = append([]byte{'C', 0, 0, 0, 11}, "COMMIT\x00"...)

func (p *Proxy) answer(_ *proxied, b []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := bytes.Index(b, committed)
	if at < 0 || p.strikes == 0 {
		return b, true
	}
	p.strikes--
	return append(b[:at:at], p.reply...), false
}

func (p *Proxy) request(c *proxied, b []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold == nil || !p.hold(b) {
		return b, true
	}
	p.hold = nil
	c.hang()
	return nil, false
}

func (c *proxied) hang() { c.once.Do(func() { close(c.hangs) }) }

// CutCommits closes the connections of the next n commits after the server has executed them.
// Instead of their answer the client gets reply, which may be nil or an [ErrorResponse].
func (p *Proxy) CutCommits(n int, reply []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strikes, p.reply = n, reply
}

// Left is how many of these commits are still to come.
func (p *Proxy) Left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.strikes
}

// HangAt makes the next connection on which the client sends text hang: neither text nor later data
// is forwarded, and nothing is closed.
func (p *Proxy) HangAt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = func(b []byte) bool { return bytes.Contains(b, []byte(text)) }
}

// ErrorResponse is an error as a server sends it.
func ErrorResponse(severity, code, message string) []byte {
	var b []byte
	for _, field := range []string{"S" + severity, "V" + severity, "C" + code, "M" + message} {
		b = append(append(b, field...), 0)
	}
	b = append(b, 0)
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(b)+4)), b...)
}
