// Package rules has the pure rules that a store applies: it holds no clock and does no I/O.
//
// A store keeps a [Row] with each job. In the transaction of an event it calls [Decide], which
// returns a [Transition], and then [Match] if responses are attached. Before a job starts, a claim
// asks the gates of its queue: [Flow.Ask]. [Rank] gives the order of ready jobs, [NextOpening] the
// time windows, [RetentionOf] the age at which final jobs are deleted.
//
// Applications do not need this package. docs/concepts.md explains the life of a job.
package rules
