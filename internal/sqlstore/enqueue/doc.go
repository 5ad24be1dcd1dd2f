// Package enqueue stores jobs, leases their ids, and creates the queues that they name first.
//
// A Request is one call. All calls of a transaction form a Batch, which works in three stages:
// Reads looks up ids, keys and queues of all calls together; Plan decides each call in turn, and
// each sees the effects of those before it; WriteJobs writes the plans, with one statement a
// table. A refused call leaves no trace, so it never forces the others to run again.
//
// For each job Plan decides first the id, then the key, then the insert. An id that exists with the
// same digest is a repeated call, and is answered as before, in any state of the job. That
// is why a refusal is never decided from a cache (UseCache): the call may be a repeat.
//
// Package finish uses a Batch for the jobs that follow a completed one. EnqueueTx uses one inside
// of the application's transaction.
package enqueue
