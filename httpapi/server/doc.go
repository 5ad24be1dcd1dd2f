// Package server gives a sojourn.Store to everyone over HTTP: programs in Go through httpapi.Dial,
// and workers in any language, for which curl is enough.
//
// One table of routes (routes.go) is the whole API. Each route names its request and its answer as
// Go types, the verb that a token needs, and the class by which it is admitted under load. The
// description at /openapi.json is made from that table, and so is the test that tries every route
// with every sort of token.
//
// A request passes, in this order: its id and the log (server.go), the door (auth.go), admission
// (admit.go), decoding (bind.go), the operation (jobs.go, work.go, queues.go, operate.go), and
// encoding. An operation checks what the token may do with these jobs, calls the store, and
// translates the answer. Nothing is decided here that the store decides.
package server
