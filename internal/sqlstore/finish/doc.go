// Package finish executes what a worker reports under a lease: the end of a step (Finish), a longer
// lease (Extend), and checkpoint, progress, log and key (Save).
//
// The fence comes first: the row of the lease is read with a lock, or taken from a cache whose
// validity the write checks, and its epoch and worker must be those of the lease. Then the rules
// decide the event of the outcome, and package lifecycle writes the transition. All refusals come
// before the first write, so that one worker's refused outcome does not affect the others in the
// transaction. A report that was executed before is answered as a repeat, from the history.
//
// The batch of a transaction reads the rows of all leases together, decides the outcomes in turn,
// and leaves the writes to the transaction's write set.
package finish
