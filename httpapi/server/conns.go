package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/sojourn-queue/sojourn/internal/connlimit"
)

// Limits of connections.
const (
	DefaultMaxConns = 10_000
	MaxHeader       = 16 << 10 // bytes of the request line and the headers

	// readHeader is more than MaxHeader, so that most requests above it get an answer of the API.
	// Above readHeader net/http answers 431 as plain text.
	readHeader     = 2 * MaxHeader
	headerPatience = 5 * time.Second // for the headers to come, and for the handshake of TLS
	idlePatience   = 2 * time.Minute // of a connection between two requests
	answerPatience = 5 * time.Minute // from the headers to the end of the answer, unless the answer sets its own deadline
	reservedShare  = 4               // one connection in so many is kept for clients with a valid token
)

// HTTP is an http.Server for a port of the server's own, with limits against slow clients. It holds
// at most maxConns connections (0: DefaultMaxConns). A quarter of them is kept for connections that
// have carried a valid token. Strangers never refuse a newcomer its place: of the connections
// without a token the oldest is closed. Without tokens (Options.Open), a connection counts as
// authenticated between whole requests.
func (s *Server) HTTP(maxConns int) *http.Server {
	if maxConns == 0 {
		maxConns = DefaultMaxConns
	}
	h := &http.Server{Handler: s, ReadHeaderTimeout: headerPatience, WriteTimeout: answerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: readHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	connlimit.New(maxConns, maxConns/reservedShare).Install(h)
	return h
}

// headerSize is how many bytes the request line and the headers have, as HTTP/1.1 sends them.
func headerSize(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Proto) + len("  \r\n") + len("Host: \r\n") + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}
