// Package jobrow has the rows of jobs as the database stores them, and everything that is encoded
// on the way: columns, policies, waits, digests and times. It knows statements by their text, but
// runs none.
//
// A [Row] is a job that is not final: what the rules need of it, and when it must be checked next.
// A [Decoder] reads rows, and a [RowWrite] (see Updates, InsertWaiting, InsertStarted) writes them.
// A [Columns] collects the values of a bulk statement by column. A [Digest] and a [Message]
// identify jobs and responses, so that repeated calls are recognised. A [Candidate] is the little
// of a row that a claim needs for its choice.
//
// In the flow of a write, package txn reads rows with a Decoder at the beginning of a transaction.
// The requests change copies of them, and txn writes them with RowWrites when it sends its write
// set.
//
// A Decoder and a BoundedMap are safe for concurrent use. A Row may be shared by caches, so a
// transition changes a copy of it. Times are microseconds since 1970; 0 is no time.
package jobrow
