// Package slowclients holds connections to a server open without finishing a request, for tests of
// how servers defend themselves.
package slowclients

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Pause waits before a connection that the server has closed is opened again.
type Pause func(ctx context.Context)

// Second is a Pause of a second.
func Second(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// Turns is a Pause that ends when something is sent to it: the pace of the silent clients is then
// that of the honest ones, however busy the machine is.
type Turns chan struct{}

// Pause waits for a turn.
func (t Turns) Pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-t:
	}
}

// Give lets one client reconnect, if one waits.
func (t Turns) Give() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// Client describes one connection: it sends Text and then, if Drip is set, one more byte of it per
// second.
type Client struct {
	Text string
	Drip bool
}

// Headers are clients that never finish a header, or say nothing after a first request.
func Headers() []Client {
	return []Client{
		{Text: ""},
		{Text: "P"},
		{Text: "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "},
		{Text: "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", Drip: true},
		{Text: "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"}, // idle between two requests
	}
}

// Bodies are clients that never finish the body of a request to one of the paths. Header lines may
// be added, such as a token.
func Bodies(paths []string, headers ...string) (all []Client) {
	head := strings.Join(append(headers, ""), "\r\n")
	for _, p := range paths {
		begin := "POST " + p + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + head
		all = append(all,
			Client{Text: begin + "Content-Length: 4000\r\n\r\n"},
			Client{Text: begin + "Content-Length: 4000\r\n\r\n", Drip: true},
			Client{Text: begin + "Transfer-Encoding: chunked\r\n\r\n1\r\n"},
			Client{Text: begin + "Content-Length: 200000\r\n\r\n" + strings.Repeat(" ", 100_000)})
	}
	return all
}

// Start opens n connections to an address, with TLS if secure is not nil, and keeps them open until
// stop is called. It returns when each has been opened once.
func Start(addr string, secure *tls.Config, n int, clients []Client, pause Pause) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running, opened sync.WaitGroup
	for i := range n {
		c := clients[i%len(clients)]
		opened.Add(1)
		running.Go(func() {
			once := sync.OnceFunc(opened.Done)
			defer once()
			for ctx.Err() == nil {
				hold(ctx, addr, secure, c, once)
				pause(ctx)
			}
		})
	}
	opened.Wait()
	return func() { cancel(); running.Wait() }
}

// hold keeps one connection until the server closes it.
func hold(ctx context.Context, addr string, secure *tls.Config, c Client, opened func()) {
	defer opened()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := raw
	if secure != nil && c.Text != "" {
		t := tls.Client(raw, secure)
		if t.HandshakeContext(ctx) != nil {
			return
		}
		conn = t
	}
	if _, err := io.WriteString(conn, c.Text); err != nil {
		return
	}
	opened()
	if c.Drip {
		go func() {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
				if _, err := io.WriteString(conn, "a"); err != nil {
					return
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, conn)
}
