// Package txn is a transaction of the store. It holds the state that the requests share, reads, and
// collects, sends and commits the writes. It holds no rules and decides nothing about jobs;
// the packages above it do, and see the database only through a [Tx].
//
// The nouns:
//
//   - [Core] is what all transactions of a store share: database, clock, configuration, caches.
//   - [Op] is a kind of request, such as enqueue. A [Request] is one call of it, and a [Batch] is
//     the requests of one op that share a transaction.
//   - [Tx] is one transaction (a unit of work). Its [WriteSet] and [ResponseWrites] have the writes
//     that are decided but not sent, [Loaded] the rows that it has read, and [Events] what happens
//     after the commit.
//   - [Validators] check at the commit that cached reads still hold (optimistic concurrency
//     control).
//
// The flow of a write: Do puts a request into a lane of package groupcommit. The store takes a
// group of requests and begins a Tx, with cached reads (UseCachedRows) or with its reads in the
// first message (Prefetch). Each batch reads, decides its requests in order, and adds writes, with
// Save, AddInsert, Add and AddBulk. Every read flushes the write set first, so that each request
// sees the effects of those before it; Peek is the exception. End sends the rest, validates and
// commits. Then the caches learn from the Tx, and its Events are published
// (docs/internals/engine.md#the-flow-of-a-write).
//
// Core, Op and the caches are safe for concurrent use. A Tx, its batches and its requests
// belong to one goroutine at a time.
//
// Names of statements that other packages run or replace begin with Q; those that begin with Text
// have another text on a database that says so in Dialect.Over.
package txn
