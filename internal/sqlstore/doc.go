// Package sqlstore is the one implementation of sojourn.Store for SQL databases. It holds the
// statements, one text for every database, and speaks to a database only through the seam, package
// sqldb.
//
// Every call becomes a request to a [batcher], which gathers what waits into one transaction (group
// commit): finishes and responses first, then claims, then enqueues. On PostgreSQL finishes have
// one of their own, on SQLite many do. One step a file:
//
//	enqueue.go   plan.go  ids.go   jobs come in
//	claim.go     repeat.go     wait.go  workers take them; who repeats a claim gets the same; who finds nothing waits for a hint
//	lease.go                   extend and save, under a lease
//	finish.go    apply.go      an outcome meets sojourn.Decide
//	first.go     foresee.go    what is read together, before it is asked for
//	recent.go    unused.go     trust.go  what need not be read again
//	guess.go                   what is not looked at, but asked when it is written
//	alike.go                   jobs that start in the statement that finds them
//	await.go                   a job begins to wait
//	pending.go   sheet.go      what is decided is written, one statement a table for all requests of the transaction
//	respond.go   responding.go match.go  responses meet their jobs, and sojourn.Match
//	received.go                what came of them is written
//	sweep.go     prune.go      what is overdue, and what is old
//	edit.go                    operators
//	find.go      inbox.go      reading
//	vacuum.go                  what transactions leave behind
//	check.go                   the invariants, for sojourn doctor
//
// The unit of every step is one transaction whose writes repeat the state and the epoch they have
// read. The rules themselves are not here: sojourn.Decide and sojourn.Match are pure functions of
// the root package.
package sqlstore
