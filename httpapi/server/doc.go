// Package server serves a driver.Store over HTTP: to Go programs through httpapi.Dial, and to
// workers in any language.
//
// One table of routes (routes.go) is the whole API. Each route names its request and its answer as
// Go types, the verb that a token needs, and the class by which it is admitted under load. The
// description at /openapi.json is generated from that table, and so is the test that calls every
// route with every sort of token.
//
// A request passes, in this order: its id and the log (server.go), authentication (auth.go),
// admission (internal/admission), decoding (bind.go), the operation (jobs.go, work.go, queues.go,
// operate.go), and encoding. An operation checks the token's permissions for these jobs, calls the
// store, and translates the result. All other decisions are the store's.
package server
