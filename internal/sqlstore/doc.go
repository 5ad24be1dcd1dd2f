// Package sqlstore is the one implementation of driver.Store for SQL databases. It holds the
// statements, one text for every database, and speaks to a database only through the seam, package
// sqldb.
//
// Every call becomes a request to a [batcher], which gathers waiting requests into one transaction
// (group commit): finishes and responses first, then claims, then enqueues. On PostgreSQL finishes
// have a batcher of their own, on SQLite large finishes do. One step a file:
//
//	enqueue/enqueue.go   enqueue/plan.go  txn/ids.go   enqueue jobs
//	claim/claim.go     claim/repeat.go     wait.go  claim jobs; repeat a claim; wait for hints
//	finish/lease.go                   extend and save, under a lease
//	finish/finish.go    lifecycle/apply.go      apply an outcome with rules.Decide
//	first.go     foresee.go    prefetch in the first message of a transaction
//	recent.go    unused.go     trust.go  row and id caches
//	guess.go                   optimistic reads, validated at commit
//	alike.go                   bulk start: one statement finds and starts jobs
//	lifecycle/await.go                   begin the wait of a job
//	pending.go   sheet.go      write set: one statement a table for all requests
//	respond/respond.go   responding.go lifecycle/match.go  find the jobs of responses, apply rules.Match
//	received.go                write the responses and their outcomes
//	operate/sweep.go     operate/prune.go      end overdue waits and leases, delete old jobs
//	operate/edit.go                    operators
//	query/find.go      inbox.go      reading
//	vacuum.go                  dead tuples
//	query/check.go                   the invariants, for sojourn doctor
//
// docs/internals/engine.md shows the way of a write through these files, and lists the
// optimisations with their savings.
//
// Each step is one transaction whose writes repeat the state and the epoch that it has read. The
// rules themselves are not here: rules.Decide and rules.Match are pure functions of the root
// package.
package sqlstore
