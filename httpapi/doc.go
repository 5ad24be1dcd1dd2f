// Package httpapi reaches a store over HTTP: [Dial] gives a sojourn.Client that behaves like one
// over a database, so a program moves from an embedded store to a server by changing its URL. The
// server is in package httpapi/server, which programs that only dial do not link.
package httpapi
