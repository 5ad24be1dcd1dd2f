// Package lifecycle carries out the transitions of jobs. The rules (package rules) decide without a
// database; this package makes their reads, and adds their decisions to the transaction's
// write set.
//
// A transition goes from a row as it was read (was) to a new row (l). Apply writes any of them: the
// row or its end, the history, and the outcomes of its responses. BeginWait follows a transition
// that starts a wait. Match follows every transition, because a response that is attached to the
// job already may move it on at once. ApplyEvent does all three for the events of the clock, which
// SweepOverdue finds by the index of wake-up times.
//
// Keys are its second subject: a key belongs to the one live job that has it or awaits it, and
// afterwards stays with the final job that had it last, so that a response to it is late, and not
// early.
//
// The packages of the requests (enqueue, claim, finish, respond, operate) call it between their
// reads and the commit. It never commits, and all its writes belong to the caller's transaction.
package lifecycle
