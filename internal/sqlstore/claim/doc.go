// Package claim gives ready jobs to workers, under leases.
//
// A Claimer is a process's part in it: it blocks claims that find nothing, and runs the others. The
// claims of one transaction form a batch and run one after the other, after all other requests, so
// that they see the jobs that these have made ready. A claim
//
//   - answers a request that was executed before (repeatedClaim), or is of a drained worker;
//   - handles overdue jobs, so that due jobs start even if no process calls Sweep;
//   - picks candidates (pick): the head of each queue, through package gate if the queue has gates,
//     and then over the queues as the request says (choose);
//   - takes them (take): it locks their rows, puts off jobs whose windows are closed, lets the
//     rules decide the rest, and gives each a lease;
//   - records the jobs as the worker's last claim, by which a repeated request finds them.
//
// On PostgreSQL the reads of the first claim are sent ahead, in the message that begins the
// transaction (prefetch), or one statement even starts its jobs (bulk start). HandOver runs claims
// that are blocked in this process in the transaction of another request that has made jobs ready.
package claim
