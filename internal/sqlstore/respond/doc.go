// Package respond stores the responses of other systems in the inbox and gives them to the jobs
// that they are for. Every response is stored, also one that is early, late, a duplicate, or
// matches no job; its record shows which.
//
// A response addresses a job by id, by key, or by a token (a target). Its message id makes a
// repeated delivery harmless. All responses of a transaction form a batch, which works in four
// stages: Reads looks up message ids, holders of keys and rows; prepare runs the reads that depend
// on these, and is the last place that refuses a call; store decides each response in turn, on the
// rows as those before it have left them; and the transaction's write set writes each response
// once, in its final state.
package respond
