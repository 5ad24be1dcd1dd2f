// Package sojourn is a durable job queue for work that waits on the outside world: a job sends a request, frees its worker,
// and is finished by an answer that comes later over another channel, matched by a key the application already has.
//
// There are five nouns. A [Job] is one unit of work. Its [Kind] says which handler runs it. It stands in a queue. A worker
// (package worker) claims it under a [Lease] and runs the handler. Its key matches the [Response] that arrives later.
//
// The flow, in the order in which to read the code:
//
//	Kind.New          makes a Job from typed arguments                           kind.go, job.go
//	Client.Enqueue    checks it, gives it an ID, stores it durably               client.go
//	Store.Claim       hands it to a worker under a lease                         store.go
//	handler           returns nil, an error, or Await, Snooze, Abort, Cancel     outcome.go
//	Decide            says what the outcome does to the job (pure)               decide.go
//	Client.Respond    brings the answer; Match says whom it wakes (pure)         response.go, decide.go
//	Store.Sweep       ends what is overdue: leases, waits, deadlines             store.go
//
// This package is the domain. It does no input or output and reads no clock: a [Store] does both. Constructors such as
// sqlite.Open return a [Client] over their store. Decide and Match are the only place where the rules of a job's life stand;
// every store calls them, so that all behave alike.
//
// Delivery is at least once. What is promised beyond that: an acknowledged enqueue is durable, a job has one live lease at a
// time, every write on behalf of a step repeats (id, epoch, worker) and the running state, and a worker that lost its lease
// changes nothing any more.
package sojourn
