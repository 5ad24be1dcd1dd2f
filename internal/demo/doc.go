// Package demo is a small shop that demonstrates the queue and checks it. The shop sells orders.
// Each is a job that requests a payment from a gateway over HTTP and awaits the response, which
// arrives later by webhook: late, early, twice, as an error, or never. The gateway is a real HTTP
// server on loopback with its own storage.
//
// A ledger outside the store records every acknowledgement, so that the end of a run can report
// lost ones. Reading order: [Run], shop.go (enqueues, and the handler), gateway.go, audit.go.
package demo
