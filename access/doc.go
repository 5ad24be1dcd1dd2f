// Package access has the access tokens of servers, with their grants, the audit log, and the
// capabilities with which somebody outside answers one wait of one job.
//
// A server finds the [Token] of a request and puts its [Caller] into the context of each call. A
// store asks the Caller before a call has an effect on jobs of other queues.
package access
