// Package gate decides which ready jobs of a queue a claim may start. A gate is a reason to hold
// jobs back: a limit of weight in flight, shares of groups, rates, a hold, a breaker, a throttler,
// windows, a pause. Most queues have none, and then a claim does not come here.
//
//   - Gates is what the process keeps for the gates of all queues.
//   - A Claim is one claim's visit to one queue. Its gates are checked under the lock of the
//     queue's row, so their counts stay valid until the commit.
//   - An Admission passes the candidates to rules.Flow, which has the gates' rules. It decides in
//     which order, how far to read, and what an empty claim waits for. It reads candidates through
//     the interface source, and is tested without a database.
//   - A Candidate is a ready job with its rank, weight, kind and lane. The lane is the column by
//     which groups are indexed: a mark and the group's name.
//
// Package claim calls Gates.Admit for each queue with gates, chooses among the candidates of its
// queues, and reports to the gates the chosen jobs (Claim.Close) and the started ones
// (Claim.RecordStarts). Package finish records the outcomes of steps in the transaction;
// Gates.FlushPace evaluates them at the end of a request.
package gate
