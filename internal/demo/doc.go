// Package demo is a small shop that shows the queue at work, and checks it while doing so. A shop
// sells orders; each is a job that asks a payment gateway for money over HTTP and awaits the
// answer, which comes later by webhook: late, early, twice, as an error, or never. The gateway is a
// real HTTP server on loopback with a memory of its own.
//
// What was acknowledged stands in a ledger outside the store, so that the end of a run can say how
// much of it the store has lost. The order in which to read: [Run], shop.go (enqueues, and the
// handler), gateway.go, audit.go.
package demo
