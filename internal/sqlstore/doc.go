// Package sqlstore is the one implementation of driver.Store for SQL databases. It connects the
// packages below it, and runs groups of calls as transactions.
//
// The parts are packages of their own. Each imports only those before it in this list:
//
//	groupcommit  concurrent callers share transactions
//	nearkey      keys that are easily mistaken for each other
//	clock        the store's clock, which notices steps
//	jobrow       the row of a live job: columns, decoding, rank, digests
//	txn          a transaction: reads, write set, caches, validators
//	wake         blocked calls, and the hints that wake them
//	lifecycle    applies decisions of the rules: transitions, waits, keys, overdue jobs
//	jobview      jobs as their readers see them
//	gate         gates of queues: limits, groups, rates, breakers, throttlers, windows
//	enqueue      stores jobs, leases ids
//	finish       ends steps; extends and saves under a lease
//	respond      stores responses and gives them to their jobs
//	claim        hands out jobs to workers
//	query        reads: jobs, queues, workers, inbox, why a job waits, the invariants
//	upkeep       sweep, retention, reindex, steps of the clock, repair, restore
//	operate      edits, settings, holds, tokens, audit log
//
// Every statement has one text for all databases. The packages speak to a database only through
// package sqldb. The rules are not here: rules.Decide and rules.Match are pure functions.
//
// docs/internals/engine.md shows the way of a write through the packages, and lists the
// optimisations with their savings.
package sqlstore
